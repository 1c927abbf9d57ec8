"""Detection of names that spreadsheet programs converted to dates."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .base import list_names

MAX_PROPORTION = 0.2  # larger proportions of dates are assumed to be intended
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_DATE = re.compile(rf"\d{{1,2}}[-. ](?:{_MONTHS})[a-z]*|(?:{_MONTHS})-\d{{1,2}}|\d{{4}}-\d\d-\d\d")


def note_dates(names: Sequence[str]) -> list[str]:
    """Return a note if a few of the names are dates, such as 2-Sep for SEPT2."""
    dates = [name for name in names if _DATE.fullmatch(name.strip())]
    if not dates or len(dates) > MAX_PROPORTION * len(names):
        return []
    return [
        f"{len(dates):,} of the {len(names):,} names are dates ({list_names(dates, 3)}); "
        "spreadsheet programs convert gene names such as SEPT2 and MARCH1 to dates"
    ]
