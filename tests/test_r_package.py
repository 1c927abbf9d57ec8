"""Tests of the R package by R itself; they are skipped where R is not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "r"
TESTS = "library(testthat); library(prosparse); test_dir(commandArgs(TRUE), package = 'prosparse')"


def has_packages() -> bool:
    """Return whether R and the packages of the tests are installed."""
    if shutil.which("Rscript") is None:
        return False
    code = "quit(status = !all(sapply(c('ggplot2', 'testthat'), requireNamespace, quietly = TRUE)))"
    return subprocess.run(["Rscript", "-e", code], check=False, capture_output=True).returncode == 0


def test_r_package(tmp_path):
    if not has_packages():
        pytest.skip("R with ggplot2 and testthat is not installed")
    (tmp_path / "library").mkdir()
    command = tmp_path / "prosparse"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m prosparse "$@"\n')
    command.chmod(0o755)
    environment = os.environ | {"R_LIBS": str(tmp_path / "library"), "PROSPARSE": str(command)}
    for arguments in (
        ["R", "CMD", "INSTALL", "-l", str(tmp_path / "library"), str(PACKAGE)],
        ["Rscript", "-e", TESTS, str(PACKAGE / "tests" / "testthat")],
    ):
        done = subprocess.run(
            arguments,
            check=False,
            capture_output=True,
            text=True,
            env=environment,
        )
        assert done.returncode == 0, done.stdout + done.stderr
