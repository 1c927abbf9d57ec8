"""Fit all estimators to random data with random parameters, and record the outcomes.

    python -m benchmarks.reliability --seconds 3600 --output docs/reliability

The examples are those of the property tests (`tests/properties`). The run continues after failures
and writes ``properties.json``: for each estimator the number of examples, valid fits and errors by
type, and each distinct failure with its first example.
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

MAX_SECONDS = 60  # time limit of one example
BATCH_SIZE = 100  # examples between two checks of the time


def signature(error: BaseException) -> str:
    """Return the error and its line, which identify distinct failures."""
    trace, location = error.__traceback__, ""
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if "prosparse" in file.parts or "properties" in file.parts:
            location = f"{file.name}:{trace.tb_lineno}"
        trace = trace.tb_next
    message = re.sub(r"[-+]?\d[-+\d.e]*|\[.*", "#", " ".join(str(error).split()))
    return f"{type(error).__name__} at {location}: {message[:90]}"


def raise_timeout(number: int, frame: Any) -> None:
    """Handle SIGALRM."""
    raise TimeoutError(f"The fit exceeded {MAX_SECONDS} seconds.")


def run_examples(name: str, seconds: float, first_seed: int) -> dict[str, Any]:
    """Run examples of one estimator until the time limit."""
    failures: Counter[str] = Counter()
    first: dict[str, str] = {}
    OUTCOMES.pop(name, None)
    start, batch = time.perf_counter(), 0

    def check(estimator: Any, spec: Any, exponent: int) -> None:
        try:
            signal.alarm(MAX_SECONDS)
            outcome(estimator, build(spec), response(spec, exponent, name))
            signal.alarm(0)
        except Exception as error:
            failure = signature(error)
            failures[failure] += 1
            first.setdefault(failure, f"{estimator!r} on {spec!r}, exponent of y {exponent}")

    options = settings(
        max_examples=BATCH_SIZE,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    while time.perf_counter() - start < seconds:
        examples = given(estimators(name), specs(200), st.integers(-150, 150))(check)
        seed(first_seed + batch)(options(examples))()
        batch += 1
    outcomes = OUTCOMES.get(name, Counter())
    return {
        "estimator": name,
        "seed": first_seed,
        "examples": sum(outcomes.values()) + sum(failures.values()),
        "valid": outcomes.pop("valid", 0),
        "refused": dict(outcomes.most_common()),
        "failed": sum(failures.values()),
        "failures": [{"what": k, "times": n, "first": first[k]} for k, n in failures.most_common()],
        "seconds": round(time.perf_counter() - start),
    }


def write_record(path: Path, rows: list[dict[str, Any]]) -> None:
    """Update the rows of the record; rows of other estimators are unchanged."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(path.read_text())["rows"] if path.exists() else []
    by_name = {row["estimator"]: row for row in [*before, *rows]}
    record = {
        "part": "properties",
        "rows": [by_name[name] for name in PARAMETERS if name in by_name],
    }
    path.write_text(json.dumps(record, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="total time for all estimators")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=list(PARAMETERS))
    parser.add_argument("--output", type=Path, help="folder of the record")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, raise_timeout)
    rows = []
    for name in options.only:
        row = run_examples(name, options.seconds / len(options.only), options.seed)
        rows.append(row)
        print(
            f"{name:15} {row['examples']:6} examples, {row['valid']:6} valid, "
            f"{row['failed']} failed",
            flush=True,
        )
        for failure in row["failures"]:
            print(
                f"    {failure['times']:4} x {failure['what']}\n           {failure['first']}",
                flush=True,
            )
    if options.output:
        write_record(options.output / "properties.json", rows)


if __name__ == "__main__":
    main()
