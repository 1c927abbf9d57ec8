"""Names that a spreadsheet program took for dates: the gene SEPT2 becomes 2-Sep."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .base import quietly

_MOST = 0.2  # of the names: where more are dates, they are meant to be
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_DATE = re.compile(rf"\d{{1,2}}[-. ](?:{_MONTHS})[a-z]*|(?:{_MONTHS})-\d{{1,2}}|\d{{4}}-\d\d-\d\d")


def tell_dates(names: Sequence[str]) -> list[str]:
    """A note, if a few of the names are dates."""
    found = [name for name in names if _DATE.fullmatch(name.strip())]
    if not found or len(found) > _MOST * len(names):
        return []
    shown = ", ".join(map(quietly, found[:3])) + (", ..." if len(found) > 3 else "")
    return [
        f"{len(found):,} of the {len(names):,} names are dates ({shown}): spreadsheet programs "
        "turn names of genes such as SEPT2 and MARCH1 into these"
    ]
