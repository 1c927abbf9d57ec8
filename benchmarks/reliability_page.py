"""The page about reliability, from the records of the runs: python -m benchmarks.reliability_page

Reads ``docs/reliability/*.json`` (each names the script that wrote it) and
``docs/reliability/mended.md``, and writes ``docs/reliability.md``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
RECORDS = DOCS / "reliability"

INTRODUCTION = """\
# Reliability

What was tried to break the library, how often, and what came of it. Written by
`python -m benchmarks.reliability_page` from the records of the runs; do not edit.
"""


def table(head: Iterable[str], rows: Iterable[Iterable[Any]], words: int = 1) -> str:
    """A Markdown table; all columns but the first, or the first ``words``, are numbers."""
    names = list(head)
    marks = ["---"] * words + ["---:"] * (len(names) - words)
    lines = [names, marks, *(map(str, row) for row in rows)]
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
    return f"""## Any table

Tables of 2 x 1 to 50 x 200 with random ranks, units from 1e-150 to 1e150, types, layouts, sparse
formats, copies, constant columns, outliers of 1e8 and ties, with random parameters. Each must end
in a valid fit (everything finite, constraints exact, the objective never falling) or in a refusal
in words; anything else, a warning nobody can act on included, is a failure
(`benchmarks/reliability.py`; a few of them are in every run of the tests, `tests/properties`).

{table(["estimator", "examples", "valid fits", "refused", "failures"], lines)}
"""


def fuzzing(record: dict[str, Any]) -> str:
    rows = [
        (
            kind,
            number(one["inputs"]),
            number(one["read"]),
            number(sum(one["refused"].values())),
            number(one["findings"]),
            f"{one['slowest']['seconds']:.1f} s",
            f"{one['most memory']['MiB']:.0f} MiB",
        )
        for kind, one in record["formats"].items()
    ]
    head = ["format", "inputs", "read", "refused", "findings", "slowest", "most memory"]
    remark = f"\n{record['remark']}\n" if record.get("remark") else ""
    return f"""## Any file

{record["inputs"]:,} damaged and hostile files for the readers and the model loader
(`benchmarks/fuzz.py`). A finding is a crash, a hang, an error that is not ours, more than 1 GiB of
memory, or code that was run; there were {record["findings"]}.

{table(head, rows)}
{remark}"""


def faults(record: list[dict[str, Any]]) -> str:
    rows = [
        (one["what"], one["cases"], one["failure"] + one["error"], one["skipped"]) for one in record
    ]
    return f"""## Faults

What is there before stays whole, nothing half-written stays behind (`tests/test_faults.py` and the
tests of checkpoints and clusters, by `benchmarks/faults.py`).

{table(["fault", "cases", "failures", "skipped"], rows)}
"""


def endurance(record: dict[str, Any]) -> str:
    drift = [
        (name, number(one["steps"]), number(one["largest fall, as a share"]))
        + ("yes" if one["finite"] else "NO", number(one["departure of the components"]))
        for name, one in record["drift"].items()
    ]
    names = ["loop", "forced steps", "largest fall", "finite", "off unit length"]
    memory = [
        (name, number(one["fits"]), *(f"{one[key]:.0f}" for key in one if key.endswith("KiB")))
        for name, one in record["memory"].items()
    ]
    grown = [key for key in next(iter(record["memory"].values())) if key.endswith("KiB")]
    return f"""## Long runs

Iterations that go on long after nothing is left to gain (`benchmarks/endurance.py`; falls are
shares of the objective, that is, rounding):

{table(names, drift)}

Memory after many fits in one process:

{table(["estimator", "fits", *grown], memory)}
"""


# Where the code is now of modules that had another name when mutants were drawn.
TODAY = {
    "engine.acceleration": ("inference.acceleration",),
    "engine.angle": ("models.empca.angle",),
    "engine.ard": ("models.spinyreg.relaxed",),
    "engine.checkpoint": ("inference.checkpoint",),
    "engine.conditional": ("models.sca.conditional",),
    "engine.density": ("numerics.density",),
    "engine.expansion": ("models.gsppca.expansion",),
    "engine.factors": ("models.sca.model",),
    "engine.gig": ("models.sca.hyperbolic",),
    "engine.l1": ("models.sppca.l1",),
    "engine.linalg": ("numerics.spectrum",),
    "engine.loop": ("inference.loop",),
    "engine.progress": ("inference.progress",),
    "engine.prox": ("models.sca.prox",),
    "engine.quadratic": ("numerics.quadratic",),
    "engine.relevance": ("models.gsppca.relevance",),
    "engine.rows": ("models.sca.weights",),
    "engine.search": ("models.empca.search",),
    "engine.special": ("numerics.bessel",),
    "engine.start": ("models.sca.start",),
    "engine.support": ("models.empca.exchange", "numerics.thresholds"),
    "selection.evidence": ("models.gsppca.evidence",),
    "selection.noisy": ("models.gsppca.noisy",),
    "selection.prior": ("selection.model_priors",),
    "selection.regression": ("models.spinyreg.model", "models.spinyreg.stepwise"),
    "selection.shortlist": ("models.spinyreg.shortlist",),
}


def today(module: str) -> str:
    """Where the code of a module is now; empty for the row of all."""
    if module == "all":
        return ""
    return ", ".join(f"`prosparse.{place}`" for place in TODAY.get(module, (module,)))


def mutation(record: dict[str, Any]) -> str:
    keys = ("mutants", "tried", "killed", "survived")
    whole, *modules = record["rows"]
    lines = [
        (row["module"], today(row["module"]), *(number(row[key]) for key in keys))
        for row in (*modules, whole)
    ]
    survivors = [one for row in modules for one in row["survivors"]]
    named = "\n".join(
        f"- `{one['name'].removeprefix('prosparse.')}`: {one['why']}" for one in survivors
    )
    return f"""## Broken on purpose

A random sample of small changes to the mathematics, one at a time (mutmut, by
`benchmarks/mutation.py`): do the tests notice? {whole["share_killed"]:.1%} were noticed. That was
at commit {whole["commit"]}, before `FDRPCA`, when some modules had other names.

{table(["module then", "its code today", *keys], lines, words=2)}

Those that were not, {whole["equivalent"]} of {whole["survived"]} because they change nothing that
could be seen; where it was a gap in the tests, it is closed now:

{named}
"""


def coverage(record: dict[str, Any]) -> str:
    return f"""## Lines that the tests run

{record["percent"]:.1f} % of {record["statements"]:,} statements ({record["command"]}).
"""


PARTS: dict[str, Callable[[Any], str]] = {
    "properties": properties,
    "fuzzing": fuzzing,
    "faults": faults,
    "endurance": endurance,
    "mutation": mutation,
    "coverage": coverage,
}


def page() -> str:
    parts = [
        write(json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8")))
        for name, write in PARTS.items()
    ]
    mended = (RECORDS / "mended.md").read_text(encoding="utf-8")
    return "\n".join([INTRODUCTION, *parts, mended])


if __name__ == "__main__":
    (DOCS / "reliability.md").write_text(page(), encoding="utf-8")
