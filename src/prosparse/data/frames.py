"""Conversion of results to pandas DataFrames (an optional dependency)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def data_frame(
    columns: Mapping[str, Any], index: Sequence[object], index_name: str | None = None
) -> Any:
    """Build a pandas DataFrame; raise an informative error without pandas."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "`to_frame` needs pandas, which is not installed. Install it: pip install pandas"
        ) from error
    return pd.DataFrame(dict(columns), index=pd.Index(index, name=index_name))
