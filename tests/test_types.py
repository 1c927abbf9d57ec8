"""A user's type checker knows what the options may be, and what comes back."""

import subprocess
import sys

import pytest

pytest.importorskip("mypy", reason="mypy is not installed")

WRONG = {
    "noise": 'GSPPCA(noise="foo")',
    "evidence": 'GSPPCA(evidence="foo")',
    "model_prior": 'GSPPCA(model_prior="foo")',
    "prior": 'SCA(prior="foo")',
    "orthogonality": 'EMPCA(orthogonality="foo")',
    "penalty": 'SPPCA(penalty="foo")',
    "refit": 'SpinyRegressor(refit="foo")',
}

# Reading the types of these packages takes half a minute and does not change the result.
SETTINGS = """\
[mypy]
ignore_missing_imports = true
[mypy-torch.*,jax.*,dask.*,distributed.*,matplotlib.*,rich.*]
follow_imports = skip
"""


def test_options_and_results_have_types(tmp_path):
    lines = [
        "from prosparse import EMPCA, GSPPCA, SCA, SPPCA, SpinyRegressor",
        *WRONG.values(),
        "reveal_type(GSPPCA().fit([[1.0, 2.0]]))",
        'GSPPCA(2, noise="ml", scale=True)',
    ]
    (tmp_path / "user.py").write_text("\n".join(lines) + "\n")
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    said = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-incremental", "--config-file", "mypy.ini", "user.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    ).stdout
    for name in WRONG:
        assert f'Argument "{name}"' in said, said
    assert 'Revealed type is "prosparse.models.gsppca.estimator.GSPPCA"' in said
    assert f"Found {len(WRONG)} errors" in said, said
