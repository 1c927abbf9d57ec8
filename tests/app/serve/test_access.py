"""Access to the page: token, cookie, Host, Origin, headers, uploads, and hostile requests."""

import asyncio
import io
import re
import zipfile

import pytest

pytest.importorskip("starlette", reason="starlette is not installed: no page")
pytest.importorskip("httpx", reason="httpx is not installed")
from starlette.testclient import TestClient

from prosparse.app.serve import access, uploads
from prosparse.app.serve.access import Gate
from prosparse.app.serve.jobs import Job, Status
from prosparse.app.serve.pages import create_application
from prosparse.app.serve.uploads import clean_name
from prosparse.app.serve.workspace import Workspace

pytestmark = pytest.mark.quick

PORT = 8000
HOME = f"http://127.0.0.1:{PORT}"
ORIGIN = {"Origin": HOME}
CSV = b"a,b\n1,2\n3,4\n"


class Workers:
    """Processes that never answer."""

    def __init__(self):
        self.closed = False

    def submit(self, request):
        return Job(request)

    def close(self):
        self.closed = True


@pytest.fixture
def workspace():
    workspace = Workspace(Workers())
    yield workspace
    workspace.close()


@pytest.fixture
def gate():
    return Gate("127.0.0.1", PORT)


@pytest.fixture
def client(workspace, gate):
    application = create_application(workspace, gate, max_bytes=1000)
    return TestClient(application, HOME, raise_server_exceptions=False, follow_redirects=False)


@pytest.fixture
def admitted(client, gate):
    client.get("/", params={"token": gate.token})
    return client


def send(client, name="t.csv", content=CSV, **headers):
    return client.post("/tables", files={"file": (name, content)}, headers=ORIGIN | headers)


# --- token and cookie


def test_token_is_exchanged_for_a_cookie(client, gate):
    response = client.get("/", params={"token": gate.token})
    assert response.status_code == 303
    assert response.headers["location"] == "/"  # the token leaves the address bar
    cookie = response.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert gate.token.lower() not in cookie
    assert client.get("/").status_code == 200


@pytest.mark.parametrize("path", ["/", "/tables/1", "/setups/1", "/static/page.js", "/compare"])
@pytest.mark.parametrize("query", ["", "?token=", "?token=wrong", "?token=%00é"])
def test_no_page_without_token(client, path, query):
    response = client.get(path + query)
    assert response.status_code == 403
    assert "set-cookie" not in response.headers


@pytest.mark.parametrize("path", ["/tables", "/stop", "/setups/1", "/analyses/1/cancel"])
def test_token_gives_no_access_to_actions(client, gate, path):
    assert client.post(path, params={"token": gate.token}, headers=ORIGIN).status_code == 403


def test_forged_cookie(client, gate):
    for value in ("", "x", gate.token):
        client.cookies.set(gate.cookie, value)
        assert client.get("/").status_code == 403


def test_redirect_after_the_token_stays_on_this_server(client, gate):
    response = client.get(f"{HOME}//other.example/?token={gate.token}")
    assert response.headers["location"] == "/other.example/"


# --- Host and Origin


@pytest.mark.parametrize(
    "host",
    ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", f"127.0.0.1.x:{PORT}",
     f"10.0.0.1:{PORT}", f"localhost.evil.example:{PORT}", ""],
)  # fmt: skip
def test_other_hosts_are_refused(admitted, host):
    assert admitted.get("/", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_loopback_hosts(admitted, gate, host):
    assert gate.accepts_host(f"{host}:{PORT}")


@pytest.mark.parametrize(
    "headers",
    [{}, {"Origin": "null"}, {"Origin": "http://evil.example"}, {"Origin": "http://127.0.0.1"},
     {"Origin": f"https://127.0.0.1:{PORT}"}, {"Origin": f"http://localhost:{PORT}"},
     {"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
     {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "none"}],
)  # fmt: skip
def test_actions_of_other_pages_are_refused(admitted, workspace, headers):
    response = admitted.post("/tables", files={"file": ("t.csv", CSV)}, headers=headers)
    assert response.status_code == 403
    assert not workspace.tables
    assert admitted.post("/stop", headers=headers).status_code == 403


def test_password_is_required_on_other_addresses(workspace):
    gate = Gate("0.0.0.0", PORT, "correct horse battery")
    application = create_application(workspace, gate)
    client = TestClient(application, HOME, follow_redirects=False)
    assert client.get("/").headers["location"] == "/login"
    assert client.get("/", params={"token": gate.token}).headers["location"] == "/login"
    assert "token" not in gate.address
    for wrong in ("", "correct", "correct horse battery "):
        assert client.post("/login", data={"password": wrong}, headers=ORIGIN).status_code == 403
    right = {"password": "correct horse battery"}
    assert client.post("/login", data=right).status_code == 403  # from another page
    assert client.post("/login", data=right, headers=ORIGIN).status_code == 303
    assert client.get("/").status_code == 200


def test_passwords_cannot_be_guessed_quickly(monkeypatch):
    gate = Gate("0.0.0.0", PORT, "correct horse battery")
    now = 0.0
    monkeypatch.setattr(access.time, "monotonic", lambda: now)
    for _ in range(access.MAX_FAILURES):
        assert not gate.accepts_password("wrong")
    assert not gate.accepts_password("correct horse battery")
    now = access.FAILURE_SECONDS + 1
    assert gate.accepts_password("correct horse battery")


def test_names_of_other_machines_are_refused_on_all_addresses():
    gate = Gate("0.0.0.0", PORT, "correct horse battery")
    assert gate.accepts_host(f"192.168.1.2:{PORT}")
    assert not gate.accepts_host(f"evil.example:{PORT}")


# --- headers


@pytest.mark.parametrize("path", ["/", "/nothing", "/static/page.css", "/setups/9"])
def test_every_response_has_a_policy_without_inline_scripts(admitted, path):
    headers = admitted.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def test_templates_contain_no_inline_script_or_style():
    from jinja2 import PackageLoader

    loader = PackageLoader("prosparse.app.serve")
    for name in loader.list_templates():
        source = loader.get_source(None, name)[0]
        assert not re.search(r"<script(?! src=)|<style|\sstyle=|\son[a-z]+=|\|safe", source), name


# --- uploads


def test_upload_is_stored_in_a_private_folder_and_removed(admitted, workspace):
    assert send(admitted).status_code == 303
    (table,) = workspace.tables.values()
    assert table.path.read_bytes() == CSV
    assert workspace.folder.stat().st_mode & 0o077 == 0
    workspace.close()
    assert not workspace.folder.exists()


@pytest.mark.parametrize(
    ("name", "clean"),
    [("../../etc/passwd.csv", "passwd.csv"), ("..\\..\\x.csv", "x.csv"), ("/etc/x.csv", "x.csv"),
     ("..", "table"), ("", "table"), (".csv", "table.csv"), ("-rf.csv", "rf.csv"),
     ("a\0b\n.csv", "a_b_.csv"), ("genes (1).csv.gz", "genes (1).csv.gz"), ("é ü.tsv", "é ü.tsv"),
     ("x" * 300 + ".xlsx", "x" * 100 + ".xlsx"), ("<script>.csv", "_script_.csv"),
     ("a.csv/", "table"), ("$(reboot).csv", "_(reboot).csv")],
)  # fmt: skip
def test_names_of_files(name, clean):
    assert clean_name(name) == clean


@pytest.mark.parametrize("name", ["../x.csv", "..%2f..%2fx.csv", "/tmp/x.csv", "C:\\x.csv"])
def test_uploads_stay_in_the_folder(admitted, workspace, name):
    assert send(admitted, name).status_code == 303
    (table,) = workspace.tables.values()
    assert table.path.resolve().is_relative_to(workspace.folder.resolve())


def test_upload_over_the_limit(admitted, workspace):
    response = send(admitted, content=b"1" * 2000)
    assert response.status_code == 413
    assert "larger than the limit of 1000 bytes" in response.text
    assert not workspace.tables
    assert not list(workspace.folder.iterdir())


def test_length_of_an_upload_is_not_trusted(admitted, workspace):
    def chunks():
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="t.csv"\r\n\r\n'
        for _ in range(5):
            yield b"1" * 500

    headers = ORIGIN | {"Content-Type": "multipart/form-data; boundary=x"}
    assert admitted.post("/tables", content=chunks(), headers=headers).status_code == 413
    assert not list(workspace.folder.iterdir())


@pytest.mark.parametrize(
    ("content_type", "body"),
    [("text/plain", CSV), ("multipart/form-data", CSV), ("multipart/form-data; boundary=x", b""),
     ("multipart/form-data; boundary=x", b"no boundary"), ("multipart/form-data; boundary=x",
     b'--x\r\nContent-Disposition: form-data; name="file"; filename="t.csv"\r\n\r\n1,2'),
     ("multipart/form-data; boundary=x", b"--x\r\n\r\n--x--"),
     (f"multipart/form-data; boundary={'x' * 5000}", b"--"), ("application/json", b"{}")],
)  # fmt: skip
def test_damaged_uploads(admitted, workspace, content_type, body):
    headers = ORIGIN | {"Content-Type": content_type}
    response = admitted.post("/tables", content=body, headers=headers)
    assert response.status_code == 400
    assert not workspace.tables
    assert not list(workspace.folder.iterdir())


def test_many_parts_and_long_fields(admitted):
    parts = [("file", (f"{k}.csv", b"")) for k in range(uploads.MAX_PARTS + 1)]
    assert admitted.post("/tables", files=parts, headers=ORIGIN).status_code == 413


def test_silent_upload_ends(monkeypatch):
    monkeypatch.setattr(uploads, "MAX_IDLE_SECONDS", 0.01)

    class Request:
        def __init__(self):
            self.headers = {"content-type": "multipart/form-data; boundary=x"}

        async def stream(self):
            await asyncio.sleep(60)
            yield b""

    with pytest.raises(uploads.UploadError, match="stopped"):
        asyncio.run(uploads.read_form(Request(), None))


def test_full_disk(admitted, workspace, monkeypatch):
    class Usage:
        free = 0

    monkeypatch.setattr(uploads.shutil, "disk_usage", lambda path: Usage)
    boundary = b'--x\r\nContent-Disposition: form-data; name="file"; filename="t.csv"\r\n\r\n'

    def chunks():
        yield boundary
        yield b"1"
        yield b"\r\n--x--\r\n"

    headers = ORIGIN | {"Content-Type": "multipart/form-data; boundary=x"}
    assert admitted.post("/tables", content=chunks(), headers=headers).status_code == 507
    assert not list(workspace.folder.iterdir())


# --- hostile requests


@pytest.mark.parametrize(
    "path",
    ["/static/../pages.py", "/static/..%2fpages.py", "/static/%2e%2e/pages.py", "/static/page.css/",
     "/analyses/1/files/..%2f..%2fetc%2fpasswd", "/analyses/1/files/x", "/setups/-1", "/tables/x",
     "/setups/99999999999999999999", "/%00"],
)  # fmt: skip
def test_unknown_paths(admitted, path):
    response = admitted.get(path)
    assert response.status_code in (400, 404)
    assert "Traceback" not in response.text


def test_files_outside_the_results_cannot_be_downloaded(admitted, workspace, tmp_path):
    table = workspace.add_table(tmp_path / "t.csv")
    setup = workspace.add_setup(table, workspace_settings())
    analysis = workspace.add_command(setup, "title", table, ["select", "t.csv"])
    analysis.folder.mkdir()
    (analysis.folder / "selected.csv").write_text("x")
    (analysis.folder.parent / "secret.csv").write_text("x")
    analysis.job.status = Status.DONE
    files = f"/analyses/{analysis.number}/files"
    response = admitted.get(f"{files}/selected.csv")
    assert response.status_code == 200
    assert response.headers["content-disposition"].startswith("attachment")
    for name in ("../secret.csv", "..%2fsecret.csv", "%2e%2e/secret.csv", "secret.csv"):
        assert admitted.get(f"{files}/{name}").status_code == 404


def workspace_settings():
    from prosparse.app.serve.arguments import Settings

    return Settings()


def test_errors_show_no_traceback(admitted, workspace, monkeypatch):
    monkeypatch.setattr(workspace, "tables", None)
    response = admitted.get("/")
    assert response.status_code == 500
    assert "unexpected error" in response.text
    assert "AttributeError" not in response.text
    assert "content-security-policy" in response.headers


def test_unsupported_methods(admitted):
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert admitted.request(method, "/tables", headers=ORIGIN).status_code == 405


def test_long_forms(admitted, workspace, tmp_path):
    setup = workspace.add_setup(workspace.add_table(tmp_path / "t.csv"), workspace_settings())
    for body in ("x=1&" * uploads.MAX_FIELDS + "x=1", "x=" + "1" * uploads.MAX_FIELD_BYTES):
        response = admitted.post(f"/setups/{setup.number}", content=body, headers=ORIGIN)
        assert response.status_code == 413


def test_many_requests_leave_nothing_behind(admitted, workspace, gate):
    client = TestClient(admitted.app, HOME)
    for _ in range(20):
        assert admitted.get("/").status_code == 200
        assert client.get("/setups/1").status_code == 403
    assert not gate.failures
    assert not list(workspace.folder.iterdir())


def test_bomb_is_not_unpacked_by_the_server(workspace, gate):
    """The server only stores the file; readers in worker processes have limits."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as content:
        content.writestr("xl/workbook.xml", b"0" * 10**7)
    application = create_application(workspace, gate)
    client = TestClient(application, HOME, follow_redirects=False)
    client.get("/", params={"token": gate.token})
    assert send(client, "bomb.xlsx", archive.getvalue()).status_code == 303
    assert workspace.size() < 10**5
