"""Read all sheets of a spreadsheet and throw them away: ``python probe_workbook.py FILE``.

On some damaged files python-calamine does not end. `read_workbook` therefore lets a process of its
own try first, which can be ended. This file imports nothing of ours, so that it starts quickly.
"""

from __future__ import annotations

import sys

import python_calamine


def try_all(path: str) -> None:
    """Every cell of every sheet."""
    with python_calamine.CalamineWorkbook.from_path(path) as book:
        for name in book.sheet_names:
            sheet = book.get_sheet_by_name(name)
            _ = sheet.to_python(skip_empty_area=False), sheet.merged_cell_ranges


if __name__ == "__main__":
    try:
        try_all(sys.argv[1])
    except python_calamine.PasswordError:
        sys.exit("it is protected by a password: save it without one")
    except Exception as error:
        sys.exit(str(error) or type(error).__name__)
    except BaseException as error:  # what Rust calls a panic
        sys.exit(f"python-calamine gave up: {error}")
