"""Every estimator on random tables for as long as wished: what came of it, as a record.

    python -m benchmarks.reliability --seconds 3600 --output docs/reliability

tries tables and parameters as the property tests do (`tests/properties`), goes on after a failure,
and writes ``properties.json``: for every estimator the examples tried, the valid fits, the refusals
by type, and every distinct failure with the first example of it. Other parts of the record (faults,
fuzzing, mutation) are other files of that folder, each with ``part`` and ``rows``.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from properties.checks import OUTCOMES, outcome
from properties.estimators import PARAMETERS, estimators
from properties.tables import build, response, specs

LONGEST = 60  # seconds for one example; a fit that takes more may never end
BATCH = 100  # examples between two looks at the clock


def signature(error: BaseException) -> str:
    """Failures with the same one are counted as one: the error and the line it came from."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if "prosparse" in file.parts or "properties" in file.parts:
            place = f"{file.name}:{trace.tb_lineno}"
        trace = trace.tb_next
    words = re.sub(r"[-+]?\d[-+\d.e]*|\[.*", "#", " ".join(str(error).split()))
    return f"{type(error).__name__} at {place}: {words[:90]}"


def give_up(number: int, frame: Any) -> None:
    raise TimeoutError(f"no end after {LONGEST} seconds")


def hunt(name: str, seconds: float, first_seed: int) -> dict[str, Any]:
    """Examples for one estimator until the time is over."""
    failures: Counter[str] = Counter()
    first: dict[str, str] = {}
    OUTCOMES.pop(name, None)
    began, batch = time.perf_counter(), 0

    def check(estimator: Any, spec: Any, exponent: int) -> None:
        try:
            signal.alarm(LONGEST)
            outcome(estimator, build(spec), response(spec, exponent, name))
            signal.alarm(0)
        except Exception as error:
            what = signature(error)
            failures[what] += 1
            first.setdefault(what, f"{estimator!r} on {spec!r}, exponent of y {exponent}")

    wishes = settings(
        max_examples=BATCH,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    while time.perf_counter() - began < seconds:
        examples = given(estimators(name), specs(200), st.integers(-150, 150))(check)
        seed(first_seed + batch)(wishes(examples))()
        batch += 1
    ends = OUTCOMES.get(name, Counter())
    return {
        "estimator": name,
        "seed": first_seed,
        "examples": sum(ends.values()) + sum(failures.values()),
        "valid": ends.pop("valid", 0),
        "refused": dict(ends.most_common()),
        "failed": sum(failures.values()),
        "failures": [{"what": k, "times": n, "first": first[k]} for k, n in failures.most_common()],
        "seconds": round(time.perf_counter() - began),
    }


def write(place: Path, rows: list[dict[str, Any]]) -> None:
    """The record, with the rows of estimators that were not run now as they were."""
    place.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(place.read_text())["rows"] if place.exists() else []
    known = {row["estimator"]: row for row in [*before, *rows]}
    record = {"part": "properties", "rows": [known[name] for name in PARAMETERS if name in known]}
    place.write_text(json.dumps(record, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="for all estimators together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=list(PARAMETERS))
    parser.add_argument("--output", type=Path, help="folder of the record")
    wish = parser.parse_args()
    signal.signal(signal.SIGALRM, give_up)
    rows = []
    for name in wish.only:
        row = hunt(name, wish.seconds / len(wish.only), wish.seed)
        rows.append(row)
        print(
            f"{name:15} {row['examples']:6} tried, {row['valid']:6} valid, {row['failed']} failed",
            flush=True,
        )
        for failure in row["failures"]:
            print(
                f"    {failure['times']:4} x {failure['what']}\n           {failure['first']}",
                flush=True,
            )
    if wish.output:
        write(wish.output / "properties.json", rows)


if __name__ == "__main__":
    main()
