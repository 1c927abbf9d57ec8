"""``python -m prosparse`` and the ``prosparse`` command."""

import sys


def main() -> None:
    try:
        from .cli import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "jinja2"):
            raise
        sys.exit(f"the command needs {error.name}: pip install 'prosparse[cli]'")
    app()


if __name__ == "__main__":
    main()
