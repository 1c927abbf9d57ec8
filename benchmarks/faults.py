"""What was broken on purpose, and what came of it: the tests of faults as one record.

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
    "test_an_interrupted_refit_leaves_the_earlier_fit": "Ctrl-C at five places of a refit: the "
    "earlier fit stays; of a first fit: cleanly not fitted",
    "test_killed_while_saving": "kill -9 between two arrays of a model file: the old file is whole",
    "test_a_swap_of_folders_that_fails_brings_the_old_one_back": "the last rename of a folder of "
    "results fails: the old folder is back",
    "test_a_file_where_a_folder_is": "a model saved where a folder is: refused, nothing left",
    "test_killed_and_resumed_equals_uninterrupted": "kill -9 in a fit with a checkpoint: resumed, "
    "the same numbers, nothing done twice",
    "test_on_a_cluster_and_when_a_worker_dies": "kill -9 to a Dask worker in mid-fit: the same fit",
    "test_a_file_cannot_grow": "the operating system refuses a write (RLIMIT_FSIZE): earlier "
    "results stay, nothing is left beside them, one line of words",
    "test_signals_to_the_command": "SIGINT (exit code 130), SIGTERM (143) and SIGKILL to the "
    "command in mid-fit and in mid-write: earlier results stay",
    "test_the_disk_is_full": "a full disk (a small tmpfs): as above",
    "test_a_folder_that_is_read_only": "a read-only folder: one line of words, exit code 1",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", type=Path, required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder) / "found.xml"
        files = [TESTS / "test_faults.py", TESTS / "inference" / "test_checkpoint.py"]
        files.append(TESTS / "contract" / "test_blocks.py")
        command = [sys.executable, "-m", "pytest", "-q", "-k", " or ".join(FAULTS)]
        command += [f"--junitxml={xml}", *map(str, files)]
        subprocess.run(command, check=False)
        cases = list(ElementTree.parse(xml).iter("testcase"))
    record: list[dict[str, Any]] = []
    for name, words in FAULTS.items():
        mine = [case for case in cases if case.get("name", "").split("[")[0] == name]
        count = {
            kind: sum(case.find(kind) is not None for case in mine)
            for kind in ("failure", "error", "skipped")
        }
        record.append({"fault": name, "what": words, "cases": len(mine)} | count)
    given.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
