"""Data sets of the experiments.

Files are read from the folder given by ``--data`` or the environment variable ``PROSPARSE_DATA``.
Data sets on OpenML are downloaded with scikit-learn's `fetch_openml` if the file is missing.
Otherwise the error names the missing file and its contents.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Arrays = dict[str, np.ndarray]

VARIABLE = "PROSPARSE_DATA"


class MissingDataError(FileNotFoundError):
    """The data are neither in the folder nor available from a public source."""


class Source(NamedTuple):
    """One data set."""

    file: str
    description: str
    arrays: str  # names and shapes of the arrays in the file
    fetch: Callable[[], Arrays] | None = None  # download from a public source


def _openml(name: str, version: int) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import fetch_openml

    return fetch_openml(name, version=version, return_X_y=True, as_frame=False, parser="auto")


def _sevens() -> Arrays:
    X, y = _openml("mnist_784", 1)
    train = np.arange(len(X)) < 60000  # OpenML preserves the original order: training images first
    return {"X": np.asarray(X[train & (y == "7")], dtype=np.uint8)}


def _usps() -> Arrays:
    X, y = _openml("USPS", 2)  # values in [-1, 1], labels 1 to 10 for the digits 0 to 9
    digits = np.asarray(y, dtype=float).astype(int) - 1
    thousandths = np.round(1000.0 * np.asarray(X, dtype=float)).astype(np.int16)
    return {"X": thousandths[:7291], "y": digits[:7291]}


def _mfeat() -> Arrays:
    views = {
        "fac": "mfeat-factors",
        "fou": "mfeat-fourier",
        "kar": "mfeat-karhunen",
        "mor": "mfeat-morphological",
        "pix": "mfeat-pixel",
        "zer": "mfeat-zernike",
    }
    arrays: Arrays = {}
    for key, name in views.items():
        X, y = _openml(name, 1)
        arrays[key], arrays["y"] = np.asarray(X, dtype=float), np.asarray(y)
    return arrays


SOURCES = {
    "matrices": Source(
        "sparse_pca_matrices_22.npz",
        "covariance and correlation matrices used to certify sparse PCA by Li & Xie (2022) and "
        "Bertsimas, Cory-Wright & Pauphilet (2022)",
        "one p x p matrix per data set, 13 to 466 variables",
    ),
    "golub": Source(
        "golub_leukemia_38x3051.npz",
        "leukaemia of Golub et al. (1999), preprocessed as in Dudoit et al. (R package "
        "plsgenomics)",
        "X (38 x 3051 log expressions)",
    ),
    "sevens": Source(
        "mnist_sevens_6265x784.npz",
        "handwritten sevens of MNIST's training images",
        "X (6265 x 784 grey levels from 0 to 255)",
        _sevens,
    ),
    "images": Source(
        "grey_images_20.npz",
        "20 grey-scale images for backgrounds",
        "one two-dimensional array of grey levels from 0 to 255 per image, at least 28 x 28",
    ),
    "vdx": Source(
        "breast_vdx_150x966.npz",
        "breast cancer of Wang et al. (2005) and Minn et al. (2007) (R package genefu)",
        "X (150 x 966 expressions), gene_symbols (966 strings)",
    ),
    "nki": Source(
        "breast_nki_150x922.npz",
        "breast cancer of van de Vijver et al. (2002) (R package genefu)",
        "X (150 x 922 expressions, some missing), gene_symbols (922 strings)",
    ),
    "kegg": Source(
        "genesets_kegg_msigdb_186.npz",
        "186 KEGG pathways of MSigDB",
        "indices and indptr (pathway i contains genes indices[indptr[i]:indptr[i + 1]]), "
        "gene_names, set_names",
    ),
    "urine": Source(
        "nmr_metref_urine_873x450.npz",
        "NMR spectra of urine, Assfalg et al. (2008) (MetRef of the R package KODAMA)",
        "X (873 x 450 bins), y_donor (873 labels), feature_names (450 strings)",
    ),
    "traces": Source(
        "cw_aes_tutorialB5_350x5000.npz",
        "power traces of AES (ChipWhisperer tutorial B5)",
        "X (350 x 5000 integers), scale, plaintext (350 x 16 bytes), key (16), session (350)",
    ),
    "nutrimouse": Source(
        "nutrimouse_40.npz",
        "genes and lipids of 40 mice, Martin et al. (2007) (R package mixOmics)",
        "gene (40 x 120), lipid (40 x 21), y_genotype (40 labels)",
    ),
    "tcga": Source(
        "tcga_breast_mixomics_150.npz",
        "TCGA breast cancer, three views (R package mixOmics)",
        "mrna_train (150 x 200), mirna_train (150 x 184), protein_train (150 x 142), y_train",
    ),
    "mfeat": Source(
        "mfeat_2000_6views.npz",
        "UCI multiple features, six views of handwritten digits",
        "fac, fou, kar, mor, pix, zer (2000 rows each), y",
        _mfeat,
    ),
    "faces": Source(
        "cbcl_faces_2429x361.npz",
        "MIT CBCL faces of 19 x 19 pixels",
        "X (2429 x 361 grey levels)",
    ),
    "armstrong": Source(
        "armstrong_mll_72x12582.npz",
        "leukaemia of Armstrong et al. (2002)",
        "X (72 x 12582 intensities), y (72 diagnoses)",
    ),
    "colon": Source(
        "colon_alon_62x2000.npz",
        "colon cancer of Alon et al. (1999) (R package plsgenomics)",
        "X (62 x 2000 expressions)",
    ),
    "nci60": Source(
        "nci60_64x6830.npz",
        "60 cancer cell lines, Ross et al. (2000) (R package ISLR)",
        "X (64 x 6830 expressions)",
    ),
    "text": Source(
        "text_ap_2246x10473_csr.npz",
        "word counts of articles of the Associated Press (R package topicmodels)",
        "data, indices, indptr, shape of a sparse matrix (2246 x 10473 counts)",
    ),
    "pbmc3k": Source(
        "pbmc3k_2700x32738_csr.npz",
        "2,700 blood cells of 10x Genomics",
        "data, indices, indptr, shape of a sparse matrix (2700 x 32738 counts)",
    ),
    "facs": Source(
        "pbmc_facs_3774x16791_csr.npz",
        "blood cells sorted by FACS, Zheng et al. (2017)",
        "data, indices, indptr, shape of a sparse matrix (3774 x 16791 counts)",
    ),
    "prostate": Source(
        "prostate_clinical_97x8.npz",
        "prostate cancer of Stamey et al. (1989)",
        "X (97 x 8), y (97 responses), feature_names (8 strings)",
    ),
    "diabetes": Source(
        "diabetes_442.npz",
        "diabetes of Efron et al. (2004) with all interactions (R package elasticnet)",
        "X2 (442 x 64), y (442 responses), feature_names2 (64 strings)",
    ),
    "gtex": Source(
        "gtex_zscores_1000x44.npz",
        "z-scores of the strongest effects of 1,000 genes in 44 tissues, GTEx (R package flashier)",
        "X (1000 x 44 z-scores)",
    ),
    "usps": Source(
        "usps_16x16.npz",
        "USPS handwritten digits, training images",
        "X (7291 x 256, thousandths of grey levels in [-1, 1]), y (7291 digits)",
        _usps,
    ),
}


class Data:
    """Data sets by name, read once from a folder or a public source."""

    def __init__(self, folder: Path | str | None = None):
        location = folder if folder is not None else os.environ.get(VARIABLE)
        self.folder = Path(location) if location else None
        self._read: dict[str, Arrays] = {}

    def __call__(self, name: str) -> Any:
        if name not in self._read:
            self._read[name] = self._load(SOURCES[name])
        return self._read[name]

    def _load(self, source: Source) -> Arrays:
        if self.folder is not None and (self.folder / source.file).is_file():
            with np.load(self.folder / source.file, allow_pickle=False) as file:
                return {key: file[key] for key in file.files}
        reason = "no public source is available"
        if source.fetch is not None:
            try:
                return source.fetch()
            except Exception as error:  # Any network failure leads to the same advice.
                reason = f"OpenML could not be read ({type(error).__name__}: {error})"
        where = "no data folder is set" if self.folder is None else f"not found in {self.folder}"
        raise MissingDataError(
            f"Data set missing ({source.description}): {where}, and {reason}. Save the arrays "
            f"{source.arrays} as {source.file} and pass its folder as --data or in the "
            f"environment variable {VARIABLE}."
        )
