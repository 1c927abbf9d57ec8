"""Entry point of ``python -m prosparse`` and of the ``prosparse`` command."""

import os
import signal
import sys

from .app.terminal import install_ascii_fallback


def main() -> None:
    """Run the command ``prosparse``."""
    # On SIGTERM, as from the time limit of a batch system, temporary files are removed as after
    # Ctrl-C.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    install_ascii_fallback()
    try:
        from .app.cli import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "jinja2"):
            raise
        sys.exit(f"the command requires {error.name}: pip install 'prosparse[cli]'")
    try:
        try:
            app(prog_name="prosparse")
        finally:
            sys.stdout.flush()
    except OSError as error:  # all other errors are handled by the commands
        # Otherwise, Python would flush standard output again at exit and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(f"prosparse: the output could not be printed ({error.strerror or error})")


if __name__ == "__main__":
    main()
