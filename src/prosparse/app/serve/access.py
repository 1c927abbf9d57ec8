"""Control of access to the server by token, cookie and headers.

A page of another site can make the browser send requests to a loopback address, and a name server
can map any name to this address (DNS rebinding). A request is therefore accepted only if three
headers are valid: Host is an address of this server, Origin is that of the page, and the cookie is
that of the session. The cookie is set in exchange for the token in the address printed by the
command.
"""

from __future__ import annotations

import hmac
import ipaddress
import platform
import secrets
import time
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SAFE_METHODS = ("GET", "HEAD")
MIN_PASSWORD_LENGTH = 12
MAX_FAILURES = 10  # maximum number of wrong passwords
FAILURE_SECONDS = 60.0  # period in which wrong passwords are counted, in seconds

PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Gate:
    """Secrets of a session, and the valid addresses of the server.

    Parameters
    ----------
    host : str
        Address to which the server is bound.
    port : int
        Port of the server.
    password : str or None, default=None
        Password for addresses other than loopback; tokens are then not accepted.
    """

    def __init__(self, host: str, port: int, password: str | None = None):
        self.host, self.port, self.password = host, port, password
        self.token = secrets.token_urlsafe(32)
        self.session = secrets.token_urlsafe(32)
        self.cookie = f"prosparse-{port}"  # cookies do not distinguish ports
        self.failures: list[float] = []

    @property
    def address(self) -> str:
        """Address of the page, with the token."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        page = f"http://{host}:{self.port}/"
        return page if self.password else f"{page}?token={self.token}"

    def accepts_host(self, value: str) -> bool:
        """Return whether a Host header names this server.

        Names other than those of this machine may be due to DNS rebinding, which does not apply to
        addresses.
        """
        name, _, port = value.rpartition(":")
        if not name or port != str(self.port):
            return False
        name = name.removeprefix("[").removesuffix("]").lower()
        if name == self.host.lower():
            return True
        if is_loopback(self.host):
            return name in ("localhost", "127.0.0.1", "::1")
        if name == platform.node().lower():
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def accepts_cookie(self, request: Request) -> bool:
        """Return whether a request carries the cookie of the session."""
        return _equal(request.cookies.get(self.cookie, ""), self.session)

    def accepts_token(self, value: str) -> bool:
        """Return whether a value is the token of this server."""
        return self.password is None and _equal(value, self.token)

    def accepts_password(self, value: str) -> bool:
        """Return whether a value is the password; False after many failures."""
        now = time.monotonic()
        self.failures = [when for when in self.failures if now - when < FAILURE_SECONDS]
        if self.password is None or len(self.failures) >= MAX_FAILURES:
            return False
        if _equal(value, self.password):
            return True
        self.failures.append(now)
        return False

    def admit(self, response: Response) -> Response:
        """Set the cookie of the session in a response."""
        response.set_cookie(
            self.cookie, self.session, path="/", httponly=True, samesite="strict", secure=False
        )
        return response


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


class AccessControl:
    """Middleware that checks access and sets response headers.

    ``public`` contains the paths that require a valid Host and Origin but no cookie.
    """

    def __init__(self, app: ASGIApp, gate: Gate, public: Collection[str] = ()):
        self.app, self.gate, self.public = app, gate, public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refuse(scope)
        await (refusal or self.app)(scope, receive, send_with_headers)

    def _refuse(self, scope: Scope) -> Response | None:
        """Return an error response to a request without access, or None."""
        request = Request(scope)
        if not self.gate.accepts_host(request.headers.get("host", "")):
            return _error(403, "The host name of the request is not that of the page.")
        if scope["method"] not in SAFE_METHODS and not _is_same_origin(request.headers):
            return _error(403, "The request comes from another page.")
        return None if scope["path"] in self.public else self._authenticate(request)

    def _authenticate(self, request: Request) -> Response | None:
        """Exchange the token for the cookie, or check the cookie."""
        token = request.query_params.get("token", "")
        if token and request.method == "GET" and self.gate.accepts_token(token):
            # The token must not remain in the address bar and in the history.
            return self.gate.admit(RedirectResponse(_without_token(request), 303))
        if self.gate.accepts_cookie(request):
            return None
        if self.gate.password is not None and request.method == "GET":
            return RedirectResponse("/login", 303)
        return _error(
            403, "Open the page with the address that `prosparse serve` printed in the terminal."
        )


def _is_same_origin(headers: Headers) -> bool:
    """Return whether a request was sent by a page of this server.

    Browsers send Origin with every POST request; programs without a browser send neither header.
    """
    origin = headers.get("origin")
    if origin is not None:
        return origin == f"http://{headers['host']}"
    return headers.get("sec-fetch-site") == "same-origin"


def _without_token(request: Request) -> str:
    # The path must start with a single slash, because "//name" is the address of another server.
    return "/" + request.url.path.lstrip("/")


def _error(status: int, message: str) -> Response:
    return PlainTextResponse(f"{message}\n", status)
