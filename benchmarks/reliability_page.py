"""Write the page about robustness from the records of the runs.

    python -m benchmarks.reliability_page

The script reads ``docs/reliability/*.json``, each written by one script of this folder, and
``docs/reliability/limitations.md``, and writes ``docs/reliability.md``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
RECORDS = DOCS / "reliability"

INTRODUCTION = """\
# Robustness tests

This page reports the results of randomised tests, fuzzing, fault injection and long runs. The
script `python -m benchmarks.reliability_page` generates the page from the records of the runs; do
not edit it by hand.
"""


def table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a Markdown table whose first column is text and whose other columns are numbers."""
    names = list(head)
    alignment = ["---"] + ["---:"] * (len(names) - 1)
    lines = [names, alignment, *(map(str, row) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.2g}"


def properties(record: dict[str, Any]) -> str:
    rows = record["rows"]
    counts = [
        (row["estimator"], row["examples"], row["valid"], sum(row["refused"].values()))
        + (row["failed"],)
        for row in rows
    ]
    total = ("all", *(sum(column) for column in list(zip(*counts, strict=True))[1:]))
    lines = [(one[0], *map(number, one[1:])) for one in (*counts, total)]
    return f"""## Random data matrices and parameters

`python -m benchmarks.reliability` generates random parameters and data matrices from 2 x 1 to
50 x 200. The matrices vary in rank, unit (1e-150 to 1e150), data type, memory layout and sparse
format. Some matrices contain duplicates, constant columns, ties or outliers of 1e8. Each fit must
be valid or raise an informative error. A fit is valid if all attributes are finite, the constraints
hold exactly, and the objective is non-decreasing. The test suite runs a small sample of these fits
(`tests/properties`).

{table(["estimator", "examples", "valid fits", "informative errors", "failures"], lines)}
"""


def fuzzing(record: dict[str, Any]) -> str:
    rows = [
        (
            name,
            number(one["inputs"]),
            number(one["read"]),
            number(sum(one["refused"].values())),
            number(one["findings"]),
            f"{one['slowest']['seconds']:.1f} s",
            f"{one['most memory']['MiB']:.0f} MiB",
        )
        for name, one in record["formats"].items()
    ]
    head = ["format", "inputs", "read", "rejected", "failures", "slowest", "peak memory"]
    return f"""## Damaged and malicious files

`python -m benchmarks.fuzz` passes {record["inputs"]:,} damaged or malicious files to the readers
and to `prosparse.load`. A failure is a crash, a hang, an exception from another library, peak
memory above 1 GiB, or the execution of code from the file.
There were {record["findings"] or "no"} failures.

{table(head, rows)}
"""


def faults(record: list[dict[str, Any]]) -> str:
    rows = [
        (one["what"], one["cases"], one["failure"] + one["error"], one["skipped"]) for one in record
    ]
    return f"""## Faults

`python -m benchmarks.faults` runs the tests that inject faults. After a fault, existing files must
be intact, and no partial file may remain.

{table(["fault", "cases", "failures", "skipped"], rows)}
"""


def endurance(record: dict[str, Any]) -> str:
    drift = [
        (name, number(one["steps"]), number(one["largest relative decrease"]))
        + ("yes" if one["finite"] else "**no**", number(one["norm error"]))
        for name, one in record["drift"].items()
    ]
    names = ["loop", "forced iterations", "largest decrease", "finite", "norm error"]
    memory = [
        (name, number(one["fits"]), *(f"{one[key]:.0f}" for key in one if key.endswith("KiB")))
        for name, one in record["memory"].items()
    ]
    grown = [key for key in next(iter(record["memory"].values())) if key.endswith("KiB")]
    return f"""## Long runs

`python -m benchmarks.endurance` continues the iterations long after convergence. The table shows
the largest relative decrease of the objective between two iterations, and the deviation of the
components from orthonormality or unit norm.

{table(names, drift)}

The next table shows the growth of memory over repeated fits in one process:

{table(["estimator", "fits", *grown], memory)}
"""


SECTIONS: dict[str, Callable[[Any], str]] = {
    "properties": properties,
    "fuzzing": fuzzing,
    "faults": faults,
    "endurance": endurance,
}


def page() -> str:
    sections = [
        write(json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8")))
        for name, write in SECTIONS.items()
    ]
    limitations = (RECORDS / "limitations.md").read_text(encoding="utf-8")
    return "\n".join([INTRODUCTION, *sections, limitations])


if __name__ == "__main__":
    (DOCS / "reliability.md").write_text(page(), encoding="utf-8")
