"""The page of ``prosparse serve`` in a browser: from a file to the answer, without requests."""

import csv
import io
import os
import re
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import messy_tables
from pages import ROOT

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytest.importorskip("python_multipart", reason="python-multipart is not installed")
webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402

from prosparse import FDRPCA  # noqa: E402

DATA = os.environ.get("PROSPARSE_DATA")
MAX_FALSE, MIN_FOUND = 0.12, 0.9  # of one table; on average of many tables .06
MAX_CLICKS = 2  # to the answer, after a file was dropped
UNLABELLED = """
return [...document.querySelectorAll('input, select, textarea, button')].filter(e =>
  e.type !== 'hidden' && !e.hidden && !(e.labels && e.labels.length) && !e.textContent.trim() &&
  !e.getAttribute('aria-label') && !e.getAttribute('aria-labelledby') && !e.title && !e.value
).map(e => e.outerHTML);
"""


@pytest.fixture(scope="module")
def browser():
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("chromium and chromedriver are not installed (Debian: chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("headless", "no-sandbox", "disable-gpu", "disable-background-networking",
                 "disable-dev-shm-usage", "window-size=1100,900"):  # fmt: skip
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    session = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield session
    session.quit()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    command = [sys.executable, "-m", "prosparse", "serve", "--no-browser"]
    folder = tmp_path_factory.mktemp("serve")
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)
    yield re.search(r"http\S+", server.stdout.readline())[0]
    server.terminate()
    server.wait(30)
    server.stdout.close()


def wait(browser, selector):
    """Return the first element when it exists."""
    elements = WebDriverWait(browser, 120).until(
        lambda session: session.find_elements(By.CSS_SELECTOR, selector)
    )
    return elements[0]


def assert_sound(browser):
    """Check landmarks, labels, narrow screens, and the messages of the browser."""
    assert len(browser.find_elements(By.CSS_SELECTOR, "main")) == 1
    assert len(browser.find_elements(By.CSS_SELECTOR, "h1")) == 1
    assert browser.execute_script(UNLABELLED) == []
    metrics = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    width = browser.execute_script("return document.documentElement.scrollWidth")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert width <= 390
    problems = [e for e in browser.get_log("browser") if "favicon" not in e["message"]]
    assert problems == []
    hosts = browser.execute_script(
        "return [...new Set(performance.getEntriesByType('resource').map(r => "
        "new URL(r.name).host))]"
    )
    assert {*hosts} <= {browser.execute_script("return location.host")}


def test_from_a_file_to_the_answer(browser, address, tmp_path):
    table = messy_tables.visits(tmp_path, seed=0)
    browser.switch_to.window(browser.window_handles[0])
    browser.get(address)
    assert "token" not in browser.current_url  # exchanged for a cookie
    assert_sound(browser)
    file = wait(browser, "input[type=file]")
    file.send_keys(str(table.path))
    if "/setups/" not in browser.current_url:
        file.submit()
    role = Select(wait(browser, '[name="role:patient"]'))
    assert role.first_selected_option.get_attribute("value") == "groups"
    assert_sound(browser)
    # A change of a role is remembered after reloading.
    Select(wait(browser, '[name="role:visit"]')).select_by_value("ignored")
    WebDriverWait(browser, 120).until(
        lambda b: b.find_elements(
            By.CSS_SELECTOR, '[name="role:visit"] option[value=ignored][selected]'
        )
    )
    browser.refresh()
    role = Select(wait(browser, '[name="role:visit"]'))
    assert role.first_selected_option.get_attribute("value") == "ignored"
    browser.execute_script("arguments[0].click()", wait(browser, 'button[value="run"]'))
    time.sleep(0.5)
    browser.refresh()  # in the middle of the analysis
    answer = wait(browser, "section.answer").text
    n_selected = int(re.search(r"(\d+) of 40 variables were selected", answer)[1])
    assert abs(n_selected - len(table.shared)) <= 2
    wait(browser, "iframe")
    assert_sound(browser)
    # The history of the session, also in another tab.
    browser.switch_to.new_window("tab")
    browser.get(address.partition("?")[0])
    assert f"{n_selected} variables selected" in browser.find_element(By.TAG_NAME, "body").text


# --- the twelve tables of `messy_tables`


class Clicks:
    """Counts the clicks of a user."""

    def __init__(self, browser):
        self.browser, self.count = browser, 0

    def click(self, selector):
        self.count += 1
        self.browser.execute_script("arguments[0].click()", wait(self.browser, selector))


def drop(browser, address, *paths):
    """Choose files, which counts as the drop; return when the table is shown."""
    browser.get(address)
    wait(browser, "input[type=file]").send_keys("\n".join(map(str, paths)))
    wait(browser, "#setup")


def download(browser, name):
    """Return a file of the results that the page links."""
    link = wait(browser, f'a[href$="/files/{name}"]').get_attribute("href")
    return browser.execute_async_script(
        "const done = arguments[1]; fetch(arguments[0]).then(r => r.text()).then(done)", link
    )


def selected_variables(browser):
    rows = csv.DictReader(io.StringIO(download(browser, "selected.csv")))
    return {row["variable"] for row in rows if row["selected"] == "yes"}


def select_from_clean_data(table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FDRPCA(**table.parameters).fit(table.X, **table.fit)
    return {table.names[k] for k in np.flatnonzero(model.support_)}


TABLES = {
    **{name: lambda folder, make=make: make(folder, 0) for name, make in
       messy_tables.SIMULATED.items()},
    **{name: lambda folder, make=make: make(folder, 0, DATA) for name, make in
       messy_tables.REAL.items()},
    "large": lambda folder: messy_tables.large(folder, 0, n=2_000),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_two_clicks_suffice(browser, address, name, tmp_path):
    if name in messy_tables.REAL and DATA is None:
        pytest.skip("PROSPARSE_DATA is not set")
    table = TABLES[name](tmp_path)
    drop(browser, address, table.path)
    clicks = Clicks(browser)
    clicks.click('button[value="run"]')
    wait(browser, "section.answer")
    assert clicks.count <= MAX_CLICKS
    selected, clean = selected_variables(browser), select_from_clean_data(table)
    assert selected <= {*table.names}
    assert len(selected & table.null) <= MAX_FALSE * len(selected)
    assert len(selected - table.null) >= MIN_FOUND * len(clean - table.null)


# --- other ways


def two_views(folder):
    """Write two tables of the same patients, the second in another order and format."""
    rng = np.random.default_rng(0)
    factor, names = rng.standard_normal((60, 1)), [f"P{k:02d}" for k in range(60)]
    paths = []
    for stem, delimiter, order in (
        ("genes", ",", range(60)), ("proteins", ";", rng.permutation(60)[:57])
    ):  # fmt: skip
        X = rng.standard_normal((60, 12))
        X[:, :6] += factor
        cells = [[names[k], *[f"{v:.3f}" for v in X[k]]] for k in order]
        if delimiter == ";":
            cells = [[cell.replace(".", ",") for cell in row] for row in cells]
        else:
            cells[4][3] = cells[11][5] = "n.d."
        header = ["patient", *[f"{stem}{k}" for k in range(12)]]
        paths.append(folder / f"{stem}.csv")
        with paths[-1].open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=delimiter).writerows([header, *cells])
    return paths


def test_several_tables(browser, address, tmp_path):
    drop(browser, address, *two_views(tmp_path))
    Clicks(browser).click('button[value="run"]')
    answer = wait(browser, "section.answer").text
    assert "shared by several tables" in answer
    assert_sound(browser)


def test_missing_values_are_filled_in(browser, address, tmp_path):
    drop(browser, address, two_views(tmp_path)[0])
    clicks = Clicks(browser)
    clicks.click('input[name="question"][value="fill"]')
    clicks.click('button[value="run"]')
    assert "2 missing values were filled in" in wait(browser, "section.answer").text
    assert clicks.count <= MAX_CLICKS
    rows = list(csv.reader(io.StringIO(download(browser, "imputed.csv"))))
    assert len(rows) == 61
    assert all(all(row) for row in rows)
    assert_sound(browser)


def test_second_table_is_added_later(browser, address, tmp_path):
    genes, proteins = two_views(tmp_path)
    drop(browser, address, genes)
    wait(browser, "#further").send_keys(str(proteins))
    WebDriverWait(browser, 60).until(
        lambda b: b.find_elements(By.CSS_SELECTOR, 'input[value="share"]:checked')
    )
    Clicks(browser).click('button[value="run"]')
    assert "shared by several tables" in wait(browser, "section.answer").text


def test_analysis_is_cancelled(browser, address, tmp_path):
    table = messy_tables.large(tmp_path, 0, n=1_500)
    drop(browser, address, table.path)
    wait(browser, 'input[name$=":stability"]')
    browser.execute_script(
        "document.querySelector('[name=\"answer:together:stability\"]').value = '400'"
    )
    clicks = Clicks(browser)
    clicks.click('button[value="run"]')
    clicks.click('form[action$="/cancel"] button')
    assert "cancelled" in wait(browser, "p.caution").text
    clicks.click("a.button")  # back to the table
    wait(browser, "#setup")


def test_two_tabs_do_not_affect_each_other(browser, address, tmp_path):
    drop(browser, address, messy_tables.fields(tmp_path, 0).path)
    first = browser.current_window_handle
    url = browser.current_url
    browser.switch_to.new_window("tab")
    browser.get(url)
    Select(wait(browser, '[name="role:treatment"]')).select_by_value("ignored")
    WebDriverWait(browser, 60).until(lambda b: b.current_url != url)
    browser.switch_to.window(first)
    browser.refresh()
    role = Select(wait(browser, '[name="role:treatment"]')).first_selected_option
    assert role.get_attribute("value") != "ignored"


def test_keyboard_suffices(browser, address, tmp_path):
    drop(browser, address, messy_tables.visits(tmp_path, 0).path)
    seen = []
    for _ in range(120):
        webdriver.ActionChains(browser).send_keys(Keys.TAB).perform()
        element = browser.switch_to.active_element
        style = browser.execute_script(
            "const s = getComputedStyle(arguments[0]); return s.outlineStyle + s.outlineWidth",
            element,
        )
        assert style == "solid3px", element.get_attribute("outerHTML")[:200]
        seen.append((element.tag_name, element.get_attribute("name")))
        if element.get_attribute("value") == "run":
            break
    assert ("select", "role:patient") in seen
    assert ("input", "question") in seen
    element.send_keys(Keys.ENTER)
    wait(browser, "section.answer")


# --- accessibility


def find_axe():
    """Return the file of axe-core: AXE_CORE, or a package that npm installed."""
    paths = [Path(os.environ["AXE_CORE"])] if "AXE_CORE" in os.environ else []
    folders = [ROOT / "node_modules"]
    if npm := shutil.which("npm"):
        root = subprocess.run([npm, "root", "-g"], capture_output=True, text=True, check=False)
        folders.append(Path(root.stdout.strip()))
    paths += [folder / "axe-core" / "axe.min.js" for folder in folders]
    return next((path for path in paths if path.is_file()), None)


def serious_findings(browser, source):
    """Return the serious findings of axe-core, in light and in dark mode."""
    found = []
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        browser.execute_script(source)
        result = browser.execute_async_script(
            "const done = arguments[0]; axe.run().then(done, e => done(String(e)))"
        )
        assert isinstance(result, dict), result
        assert len(result["passes"]) > 10
        found += [
            (scheme, violation["id"], node["html"][:200], node["failureSummary"][:300])
            for violation in result["violations"]
            if violation["impact"] in ("serious", "critical")
            for node in violation["nodes"]
        ]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    return found


def test_pages_are_accessible(browser, address, tmp_path):
    path = find_axe()
    if path is None:
        pytest.skip("axe-core is not installed: npm install --no-save axe-core")
    source = path.read_text(encoding="utf-8")
    found = {}
    drop(browser, address, *two_views(tmp_path))
    browser.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
    found["setup"] = serious_findings(browser, source)
    Clicks(browser).click('button[value="run"]')
    wait(browser, "section.answer")
    found["answer"] = serious_findings(browser, source)
    report = browser.find_element(By.LINK_TEXT, "Open the report alone").get_attribute("href")
    drop(browser, address, two_views(tmp_path)[0])
    Clicks(browser).click('input[name="question"][value="fill"]')
    Clicks(browser).click('button[value="run"]')
    wait(browser, "section.answer")
    found["filled"] = serious_findings(browser, source)
    Clicks(browser).click('aside form[action="/compare"] button')
    wait(browser, "p.lead")
    found["comparison"] = serious_findings(browser, source)
    browser.get(address.partition("?")[0])
    found["home"] = serious_findings(browser, source)
    browser.get(report)
    found["report"] = serious_findings(browser, source)
    browser.get(address.partition("?")[0] + "tables/999")
    found["error"] = serious_findings(browser, source)
    assert {page: problems for page, problems in found.items() if problems} == {}
