"""SCA on real tables."""

import numpy as np
import pytest

from papers.peers import ours
from papers.traces import attack, bytes_found, centred_by_session, laplace, sbox
from papers.views import measures, standardised


def test_sbox():
    box = sbox()
    assert sorted(box) == list(range(256))
    assert [int(box[i]) for i in (0x00, 0x01, 0x53, 0xFF)] == [0x63, 0x7C, 0xED, 0x16]  # FIPS 197


def test_power_traces(data_folder):
    """E10: a quarter of the samples is kept, and the attack needs no others."""
    file = np.load(data_folder / "cw_aes_tutorialB5_350x5000.npz")
    X = centred_by_session(file["X"] / float(file["scale"]), file["session"])
    correlation = attack(X, file["plaintext"])
    kept = laplace(X, 10.0).support_
    assert kept.mean() < 0.3
    assert bytes_found(correlation, file["key"], kept) == 16
    at_key = correlation[np.arange(16), file["key"]].max(axis=0)
    strongest = np.argsort(at_key)[::-1][:50]
    assert kept[strongest].mean() > 2 * kept.mean()


@pytest.mark.parametrize("prior", ["ard", "hyperbolic"])
def test_nutrimouse(data_folder, prior):
    """E11: genes and lipids of mice held out follow each other, and tell the genotypes apart."""
    file = np.load(data_folder / "nutrimouse_40.npz")
    views, y = [file["gene"], file["lipid"]], file["y_genotype"]
    held_out = np.arange(40) % 4 == 0
    train, test = standardised([x[~held_out] for x in views], [x[held_out] for x in views])
    fit = ours(train, 2, n_private=1, prior=prior, tol=1e-6)
    values = measures(fit, train, test, y[~held_out], y[held_out])
    correlation, canonical, explained, accuracy, zeros, _, likelihood = values
    assert canonical > 0.5
    assert likelihood == fit.log_likelihood(test)
    assert correlation > 0.6
    assert explained > 0.05
    assert accuracy > 0.85
    assert zeros > 0.2
