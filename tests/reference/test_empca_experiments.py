"""Each experiment of the paper runs by name and shows what the paper found."""

import os
import re
from pathlib import Path

import pytest

from prosparse.experiments.empca import main

pytest.importorskip("matplotlib")


def test_seventy_genes_beat_the_full_data(tmp_path, capsys):
    if "PROSPARSE_DATA" not in os.environ:
        pytest.skip("set PROSPARSE_DATA to the folder with the files to run this test")
    main(["E14", "--data", os.environ["PROSPARSE_DATA"], "--output", str(tmp_path)])
    text = capsys.readouterr().out.split("between 100 and 16000")[1]
    full = float(re.search(r"all genes: ([\d.]+)", text)[1])
    seventy = float(re.search(r"^ +70 +([\d.]+)", text, re.MULTILINE)[1])
    assert seventy > full + 0.1
    assert Path(tmp_path, "e14_genes.png").stat().st_size > 10_000
