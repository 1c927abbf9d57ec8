"""Results that rest on one row or on a batch are qualified; sound results are not."""

import numpy as np
import pytest

from prosparse import FDRPCA, SPPCA
from prosparse.findings import findings_of
from prosparse.interpretation import associations
from prosparse.report.narrative import narrate
from prosparse.report.robustness import Robustness, examine_robustness, parse_label

pytestmark = pytest.mark.quick


def sound_table(seed=0, n=60, p=24):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    X[:, : p // 2] += 1.2 * rng.standard_normal((n, 1))
    return X


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_sound_result_is_not_qualified(seed):
    X = sound_table(seed)
    label = np.random.default_rng(seed).choice(["a", "b"], 60)
    found = examine_robustness(FDRPCA().fit(X), X, labels={"Batch": label}, batches=["Batch"])
    assert found.headline() is None
    assert found.row.n_again >= 10


def test_result_that_rests_on_a_row():
    X = np.random.default_rng(0).standard_normal((60, 24))
    X[7] *= 25.0
    model = SPPCA().fit(X)
    found = examine_robustness(model, X, ids=[f"s{k}" for k in range(60)])
    assert "depends on row s7: without it, none of the" in found.headline()
    assert narrate(findings_of(model), robustness=found)[0] == found.headline()


def batch_table():
    rng = np.random.default_rng(0)
    batch = rng.integers(0, 3, 60)
    X = rng.standard_normal((60, 24))
    X[:, :12] += 1.5 * rng.standard_normal((3, 12))[batch]
    return X, np.array(["A", "B", "C"])[batch]


def test_result_that_a_batch_explains():
    X, batch = batch_table()
    model = FDRPCA().fit(X)
    found = examine_robustness(model, X, labels={"Batch": batch}, batches=["Batch"])
    assert found.headline().startswith("Differences between the levels of Batch explain")
    assert "component 1 differ between the levels of Batch" in found.summary()[0]
    tissue = examine_robustness(model, X, labels={"tissue": batch})
    assert tissue.headline() is None
    assert any(s.startswith("With tissue as a covariate, ") for s in tissue.summary())
    again = Robustness.from_json(found.to_json())
    assert again == found
    assert Robustness.from_json({"row": 1}) is None


def test_missing_labels_are_tested_but_no_covariates():
    X, batch = batch_table()
    batch = batch.astype(object)
    batch[3] = ""
    found = examine_robustness(FDRPCA().fit(X), X, labels={"Batch": batch}, batches=["Batch"])
    assert found.labels == ()
    assert found.associations[0].n == 59


def test_labels_of_groups_are_not_tested_on_dependent_rows():
    # Ten patients with ten rows each differ; a label of the patients is unrelated to that.
    rng = np.random.default_rng(0)
    small = 0
    for _ in range(40):
        patient = np.repeat(np.arange(10), 10)
        scores = 3.0 * rng.standard_normal(10)[patient] + rng.standard_normal(100)
        label = rng.permutation(["a"] * 5 + ["b"] * 5)[patient]
        naive = associations(scores[:, None], {"label": label})[0]
        grouped = associations(scores[:, None], {"label": label}, patient)[0]
        small += grouped.p_value < 0.05
        assert grouped.n == 10
        assert naive.n == 100
    assert small <= 6
    # The groups themselves, and a label that differs within groups.
    labels = {"patient": patient.astype(str), "row": np.arange(100) % 2}
    tests = associations(scores[:, None], labels, patient)
    by_name = {test.covariate: test for test in tests}
    assert by_name["patient"].p_value < 1e-6
    assert by_name["row"].n == 100


def test_labels_of_few_numbers_are_categories():
    assert parse_label(["1", "2", "", "1"]).tolist() == ["1", "2", None, "1"]
    assert parse_label([str(k) for k in range(20)])[3] == 3.0
