"""Progress of a fit, printed as lines."""

import pytest

from prosparse import EMPCA, GSPPCA
from prosparse.datasets import make_globally_sparse
from prosparse.inference.progress import Progress

pytestmark = pytest.mark.quick


def test_the_first_iterations_and_one_of_ten_are_printed(capsys):
    with Progress(20, "ascent", verbose=1) as progress:
        for k in range(20):
            progress.advance(-1.0 / (k + 1))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "ascent: iteration 1, objective -1"
    assert len(lines) == 8
    assert lines[-1] == "ascent: 20 iterations"


def test_nothing_is_shown_by_default(capsys):
    with Progress(2, "ascent") as progress:
        progress.advance(1.0)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("model", "stages"),
    [
        (GSPPCA(5, verbose=1), ["GSPPCA", "GSPPCA, evidence", "GSPPCA, refinement"]),
        (EMPCA(1, n_nonzero=4, verbose=1, random_state=0), ["EMPCA"]),
    ],
)
def test_fits_print_their_stages(capsys, model, stages):
    model.fit(make_globally_sparse(random_state=0).X)
    lines = capsys.readouterr().err.splitlines()
    ends = [line.partition(":")[0] for line in lines if line.endswith(" iterations")]
    assert sorted(ends) == sorted(stages)
