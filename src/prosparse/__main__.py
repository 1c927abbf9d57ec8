"""``python -m prosparse`` and the ``prosparse`` command."""

import os
import signal
import sys

from .app.terminal import install_ascii_fallback


def main() -> None:
    # `kill` and a batch system's time limit end the command as Ctrl-C does: files are tidied up
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    install_ascii_fallback()
    try:
        from .app.cli import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "jinja2"):
            raise
        sys.exit(f"the command needs {error.name}: pip install 'prosparse[cli]'")
    try:
        try:
            app(prog_name="prosparse")
        finally:
            sys.stdout.flush()
    except OSError as error:  # all others are told where they happen
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or it is tried again
        sys.exit(f"prosparse: the answer could not be printed ({error.strerror or error})")


if __name__ == "__main__":
    main()
