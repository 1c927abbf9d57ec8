"""Would the tests notice? Small changes to the mathematics, one at a time.

    python -m benchmarks.mutation --seed 2 --count 300 --output docs/reliability

makes a clone of the last commit, lets mutmut (3.8, with pytest 8: it does not know 9) write every
mutant of ``inference``, ``numerics``, ``selection`` and ``models``, draws some by seed, runs the
tests that reach each, and writes ``mutation.json``: per sample and module the mutants there
are, those tried, killed, stopped for taking too long, not reached by any test, and alive; and every
one alive with its change. ``why`` is written by hand, and kept where the change is the same: with
``equivalent`` true, no test of what the functions promise could tell the two apart.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# A fork of a process whose libraries have started threads can wait for them for ever, which would
# count as a mutant caught: the server that forks has imported the tests but run none.
CONFIGURATION = """
[tool.mutmut]
source_paths = ["src"]
only_mutate = ["src/prosparse/inference/*", "src/prosparse/numerics/*",
    "src/prosparse/selection/*", "src/prosparse/models/*"]
pytest_add_cli_args = ["-p", "no:cacheprovider"]
pytest_add_cli_args_test_selection = ["tests/inference", "tests/numerics",
    "tests/selection", "tests/models", "tests/contract/test_operators.py"]
also_copy = ["README.md", "LICENSE", "benchmarks"]
use_git_change_detection = false
process_isolation = "forkserver"
timeout_multiplier = 5.0
timeout_constant = 10.0
"""
# A few mutants, to have all of them written and the tests' ways through the code recorded.
FIRST = "prosparse.selection.criteria.*"
COLUMNS = {
    "killed": "killed",
    "timeout": "timeouts",
    "survived": "survived",
    "no tests": "untested",
}


def mutmut(place: Path, *words: str, quiet: bool = True) -> str:
    """A command of mutmut in a clone, single-threaded; its output."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    program = Path(sys.executable).with_name("mutmut")
    output = subprocess.PIPE if quiet else None
    done = subprocess.run(
        [program, *words], cwd=place, env=environment, stdout=output, text=True, check=True
    )
    return done.stdout or ""


def statuses(place: Path) -> dict[str, str]:
    """Of every mutant, by name."""
    lines = mutmut(place, "results", "--all", "true").splitlines()
    return dict(line.strip().rsplit(": ", 1) for line in lines if "__mutmut_" in line)


def module_of(name: str) -> str:
    return ".".join(name.split(".")[1:-1])


def change(place: Path, name: str) -> dict[str, str]:
    """The lines that a mutant has instead of others."""
    lines = mutmut(place, "show", name).splitlines()
    lines = [line for line in lines if not line.startswith(("---", "+++"))]
    return {
        word: " ".join(line[1:].strip() for line in lines if line.startswith(sign))
        for word, sign in (("was", "-"), ("became", "+"))
    }


def rows_of(place: Path, seed: int, sample: list[str], known: list[Any]) -> list[dict[str, Any]]:
    """One row per module, and one for all; ``known`` are survivors with their reasons."""
    found = statuses(place)
    reasons = {(s["was"], s["became"]): (s["equivalent"], s["why"]) for s in known}
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=place, text=True)
    rows = []
    for module in ["all", *sorted({module_of(name) for name in found})]:
        here = [name for name in found if module in ("all", module_of(name))]
        tried = [name for name in sample if name in set(here) and found[name] != "not checked"]
        counts = Counter(found[name] for name in tried)
        row: dict[str, Any] = {"seed": seed, "commit": commit.strip(), "module": module}
        row |= {"mutants": len(here), "tried": len(tried)}
        row |= {word: counts.pop(status, 0) for status, word in COLUMNS.items()}
        if counts:
            row["other"] = dict(counts)
        caught = row["killed"] + row["timeouts"]
        row["share_killed"] = round(caught / len(tried), 4) if tried else None
        if module != "all":
            alive = [name for name in tried if found[name] in ("survived", "no tests")]
            survivors = []
            for name in sorted(alive):
                lines = change(place, name)
                equivalent, why = reasons.get((lines["was"], lines["became"]), (None, ""))
                survivors.append({"name": name, **lines, "equivalent": equivalent, "why": why})
            row["equivalent"] = sum(bool(s["equivalent"]) for s in survivors)
            row["survivors"] = survivors
        rows.append(row)
    rows[0]["equivalent"] = sum(row["equivalent"] for row in rows[1:])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--children", type=int, default=2)
    parser.add_argument("--clone", type=Path, help="an earlier clone, to go on in or to read")
    parser.add_argument("--only-read", action="store_true", help="the record of what has been run")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "reliability")
    wish = parser.parse_args()
    place = wish.clone or Path(tempfile.mkdtemp(prefix="mutation-")) / "clone"
    if not place.exists():
        subprocess.run(["git", "clone", "--quiet", ROOT, place], check=True)
        with (place / "pyproject.toml").open("a") as file:
            file.write(CONFIGURATION)
    print(f"in {place}", flush=True)
    children = ("--max-children", str(wish.children))
    if not wish.only_read:
        mutmut(place, "run", *children, FIRST)
    names = sorted(statuses(place))
    sample = random.Random(wish.seed).sample(names, min(wish.count, len(names)))
    if not wish.only_read:
        mutmut(place, "run", *children, *sample, quiet=False)
    record = wish.output / "mutation.json"
    before = json.loads(record.read_text())["rows"] if record.exists() else []
    known = [s for row in before for s in row.get("survivors", ()) if s["why"]]
    rows = [row for row in before if row["seed"] != wish.seed]
    rows += rows_of(place, wish.seed, sample, known)
    record.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"part": "mutation", "rows": rows}, indent=1, ensure_ascii=False)
    record.write_text(text + "\n")


if __name__ == "__main__":
    main()
