"""Server of the page, which removes all files at the end."""

from __future__ import annotations

import socket
import threading
import webbrowser
from pathlib import Path

import uvicorn

from .access import Gate
from .jobs import Workers
from .pages import create_application
from .workspace import Workspace

MAX_CONNECTIONS = 100
PREPARE_SECONDS = 0.3


def run_server(
    file: Path | None,
    *,
    host: str,
    port: int,
    password: str | None,
    memory: int,
    max_bytes: int,
    open_browser: bool,
) -> None:
    """Serve the page until Ctrl-C, and remove all files."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        gate = Gate(host, listener.getsockname()[1], password)
        workspace = Workspace(Workers(memory))
        try:
            # The first page is shown before a worker imports the library.
            preparation = threading.Timer(PREPARE_SECONDS, workspace.workers.prepare)
            preparation.daemon = True
            preparation.start()
            if file is not None:
                workspace.add_table(file.absolute())
            server = _Server(gate, workspace, max_bytes)
            print(f"Open {gate.address}\nPress Ctrl-C to stop.", flush=True)
            if open_browser:
                threading.Thread(
                    target=webbrowser.open, args=(_start_address(gate, file),), daemon=True
                ).start()
            server.run([listener])
        finally:
            workspace.close()


def _start_address(gate: Gate, file: Path | None) -> str:
    """Return the address of the first page."""
    return gate.address if file is None else gate.address.replace("/?", "/tables/1?", 1)


class _Server(uvicorn.Server):
    def __init__(self, gate: Gate, workspace: Workspace, max_bytes: int):
        application = create_application(workspace, gate, max_bytes=max_bytes, stop=self._stop_soon)
        super().__init__(
            uvicorn.Config(
                application,
                http="h11",
                log_level="error",
                access_log=False,
                server_header=False,
                limit_concurrency=MAX_CONNECTIONS,
                timeout_keep_alive=20,
                timeout_graceful_shutdown=3,
                h11_max_incomplete_event_size=64 * 1024,
                ws="none",
                proxy_headers=False,
                lifespan="off",
            )
        )

    def _stop_soon(self) -> None:
        """End the server after the response to the current request."""
        self.should_exit = True
