"""E10 and E11 on real data."""

import numpy as np
import pytest

from papers.competing_views import fit_sca
from papers.traces import attack, centre_by_session, count_key_bytes, fit_laplace, sbox
from papers.views import evaluate, standardise_views


def test_sbox():
    box = sbox()
    assert sorted(box) == list(range(256))
    assert [int(box[i]) for i in (0x00, 0x01, 0x53, 0xFF)] == [0x63, 0x7C, 0xED, 0x16]  # FIPS 197


def test_power_traces(data_folder):
    """E10: the attack recovers the key from the selected quarter of the samples."""
    file = np.load(data_folder / "cw_aes_tutorialB5_350x5000.npz")
    X = centre_by_session(file["X"] / float(file["scale"]), file["session"])
    correlation = attack(X, file["plaintext"])
    selected = fit_laplace(X, 10.0).support_
    assert selected.mean() < 0.3
    assert count_key_bytes(correlation, file["key"], selected) == 16
    at_key = correlation[np.arange(16), file["key"]].max(axis=0)
    strongest = np.argsort(at_key)[::-1][:50]
    assert selected[strongest].mean() > 2 * selected.mean()


@pytest.mark.parametrize("prior", ["ard", "hyperbolic"])
def test_nutrimouse(data_folder, prior):
    """E11: SCA correlates and predicts held-out views and separates the genotypes."""
    file = np.load(data_folder / "nutrimouse_40.npz")
    views, y = [file["gene"], file["lipid"]], file["y_genotype"]
    held_out = np.arange(40) % 4 == 0
    train, test = standardise_views([x[~held_out] for x in views], [x[held_out] for x in views])
    fit = fit_sca(train, 2, n_private=1, prior=prior, tol=1e-6)
    values = evaluate(fit, train, test, y[~held_out], y[held_out])
    correlation, canonical, explained, accuracy, zeros, _, likelihood = values
    assert canonical > 0.5
    assert likelihood == fit.log_likelihood(test)
    assert correlation > 0.6
    assert explained > 0.05
    assert accuracy > 0.85
    assert zeros > 0.2
