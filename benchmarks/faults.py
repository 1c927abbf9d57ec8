"""Run the tests that inject faults, and record their outcomes.

python -m benchmarks.faults --record docs/reliability/faults.json
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

TESTS = Path(__file__).parents[1] / "tests"
FAULTS = {
    "test_interrupted_refit_restores_the_previous_fit": (
        "KeyboardInterrupt at five points of a refit and in a first fit: the previous fit is "
        "restored, or the estimator is unfitted"
    ),
    "test_kill_while_saving": "SIGKILL between two arrays of a model file: the old file is intact",
    "test_failed_replacement_restores_the_old_folder": (
        "the final rename of a results folder fails: the old folder is restored"
    ),
    "test_saving_to_a_folder_raises": (
        "the path of a model is a folder: an error is raised and no file remains"
    ),
    "test_resumed_fit_equals_uninterrupted_fit": (
        "SIGKILL during a fit with a checkpoint: the resumed fit equals an uninterrupted one "
        "and repeats no iteration"
    ),
    "test_fits_on_a_cluster_survive_the_death_of_a_worker": (
        "SIGKILL of a Dask worker during a fit: the same fit"
    ),
    "test_file_size_limit": (
        "a write fails (RLIMIT_FSIZE): existing results are intact, no temporary file "
        "remains, and the command prints one line"
    ),
    "test_signals": (
        "SIGINT (exit code 130), SIGTERM (143) and SIGKILL during fits and writes of the "
        "command: existing results are intact"
    ),
    "test_full_disk": "a full disk (small tmpfs): as for the failed write",
    "test_read_only_folder": (
        "a read-only folder: the command prints one line and exits with code 1"
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", type=Path, required=True, help="file of the record")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder) / "results.xml"
        files = [TESTS / "test_faults.py", TESTS / "inference" / "test_checkpoint.py"]
        files.append(TESTS / "contract" / "test_blocks.py")
        command = [sys.executable, "-m", "pytest", "-q", "-k", " or ".join(FAULTS)]
        command += [f"--junitxml={xml}", *map(str, files)]
        subprocess.run(command, check=False)
        cases = list(ElementTree.parse(xml).iter("testcase"))
    record: list[dict[str, Any]] = []
    for name, description in FAULTS.items():
        matching = [case for case in cases if case.get("name", "").split("[")[0] == name]
        count = {
            outcome: sum(case.find(outcome) is not None for case in matching)
            for outcome in ("failure", "error", "skipped")
        }
        record.append({"fault": name, "what": description, "cases": len(matching)} | count)
    options.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
