"""Fitted models with many kinds of attributes, for tests of model files."""

import io
import json
import zipfile

import numpy as np
import pandas as pd

from prosparse import (
    EMPCA,
    FDRPCA,
    GSPPCA,
    SCA,
    SPPCA,
    Panel,
    SpinyClassifier,
    SpinyRegressor,
)
from prosparse.datasets import make_globally_sparse

X = make_globally_sparse(60, 12, n_components=2, n_informative=5, random_state=0).X
RESPONSE = X[:, 0] - X[:, 3] + np.random.default_rng(1).normal(size=60)
CLASSES = np.where(RESPONSE > 0, "höher", "lower")
FRAME = pd.DataFrame(X, columns=[f"gene {k} é😀" for k in range(12)])
MODELS = {
    "FDRPCA": FDRPCA(),
    "FDRPCA, ranks": FDRPCA(2, rank_transform=True, fdr=0.1, null="exchangeable"),
    "GSPPCA": GSPPCA(2, scale=True),
    "GSPPCA, given": GSPPCA(2, n_features_to_select=np.int64(4)),
    "SCA": SCA(2),
    "SCA, views": SCA(1, n_private=[1, 0], views=[slice(0, 6), np.arange(6, 12)]),
    "SCA, hyperbolic": SCA(2, prior="hyperbolic"),
    "SPPCA": SPPCA(2, penalty="slope", penalties=np.linspace(0, 160, 40), max_iter=200),
    "SPPCA, bic": SPPCA(2, penalty=10.0, penalties=np.array([1.0, 5.0, 10.0])),
    "EMPCA": EMPCA(2, n_nonzero=[4, 5], random_state=0),
    "EMPCA, quasi": EMPCA(2, n_nonzero=3, orthogonality="quasi", min_angle=85.0, random_state=1),
    "Panel": Panel(4),
    "Panel, constraints": Panel(
        6,
        include=(1,),
        exclude=[2, -9],
        costs=np.linspace(1.0, 2.0, 12),
        bundles=[slice(4, 6), np.array([7, 8])],
        random_state=np.int64(3),
    ),
    "SpinyRegressor": SpinyRegressor(),
    "SpinyRegressor, ols": SpinyRegressor(refit="ols", scale=False),
    "SpinyRegressor, student": SpinyRegressor(noise="student"),
    "SpinyClassifier": SpinyClassifier(),
    "SpinyClassifier, map": SpinyClassifier(
        selection_rule="map", average=False, fit_intercept=False
    ),
}


def assert_same(a, b, where=""):
    assert type(a) is type(b), where
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype, where
        np.testing.assert_array_equal(a, b, err_msg=where)
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for one, other in zip(a, b, strict=True):
            assert_same(one, other, where)
    elif isinstance(a, dict):
        assert_same(list(a.items()), list(b.items()), where)
    else:
        assert a == b, where


def changed(files, name, header=None, arrays=None):
    """Write the model file ``name`` with a changed header or changed arrays."""
    with zipfile.ZipFile(files / name) as archive:
        parts = {member: archive.read(member) for member in archive.namelist()}
    content = json.loads(parts["model.json"])
    for attribute, change in (arrays or {}).items():
        member = f"arrays/{content['fitted'][attribute]['$array']}.npy"
        array, buffer = change(np.load(io.BytesIO(parts[member]))), io.BytesIO()
        np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=False)
        parts[member] = buffer.getvalue()
    if header:
        header(content)
    parts["model.json"] = json.dumps(content)
    path = files / "changed.prosparse"
    with zipfile.ZipFile(path, "w") as archive:
        for member, raw in parts.items():
            archive.writestr(member, raw)
    return path
