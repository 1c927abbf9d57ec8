"""Twelve tables as people have them, with planted truth.

Each generator writes a file with the defects of its kind, and returns the complete clean data and
the variables that share variance. Real tables have additional columns that share none: permuted
copies of some variables.
"""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from workbooks import xlsx


class MessyTable(NamedTuple):
    """File with defects, and what it contains."""

    path: Path
    X: np.ndarray  # complete clean data
    names: list[str]
    shared: set[str] | None  # variables that share variance; None if unknown
    null: set[str]  # variables that share none
    fit: dict[str, Any]  # `groups` and `covariates` of the clean analysis
    parameters: dict[str, Any]  # of `FDRPCA` for the clean data


def factors(rng, n, p, n_shared, rank=2, strength=1.0):
    """Factors in the first columns, noise in all."""
    loadings = strength * rng.choice([-1.0, 1.0], (rank, n_shared))
    loadings *= rng.uniform(0.6, 1.4, loadings.shape)
    X = rng.standard_normal((n, p))
    X[:, :n_shared] += rng.standard_normal((n, rank)) @ loadings
    order = rng.permutation(p)
    return X[:, order], np.flatnonzero(order < n_shared)


def table(path, X, names, shared, fit=None, **parameters):
    shared = {names[k] for k in shared}
    return MessyTable(path, X, names, shared, {*names} - shared, fit or {}, parameters)


def write(path, rows, delimiter=",", encoding="utf-8"):
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


def metabolomics(folder, seed):
    """Workbook with a row of units, limits of detection, and a class of the samples."""
    rng = np.random.default_rng(seed)
    Z, shared = factors(rng, 64, 60, 24)
    X = np.exp(1.5 + 0.4 * Z)
    names = [f"M{100 + k}" for k in range(60)]
    rows = [["Sample", "Class", *names]]
    rows.append([None, None, *["µmol/L" if k % 3 else "nmol/L" for k in range(60)]])
    limits = np.quantile(X, np.where(rng.random(60) < 0.3, 0.08, 0.0), axis=0).diagonal()
    for i, row in enumerate(X):
        cells = [round(float(v), 3) if v > limit else "<LOD" for v, limit in zip(row, limits)]
        rows.append([f"S{i + 1:03d}", ["control", "treated"][i % 2], *cells])
    return table(xlsx(folder / "metabolites.xlsx", {"Data": rows}), X, names, shared)


def genes_in_rows(folder, seed):
    """Genes in rows, with columns of annotation before the samples."""
    rng = np.random.default_rng(seed)
    Z, shared = factors(rng, 48, 500, 150)
    X = 8.0 + 1.2 * Z
    names = [f"ENSG{rng.integers(10**5, 10**6):011d}" for _ in range(500)]
    names = [f"{name[:-3]}{k:03d}" for k, name in enumerate(names)]
    rows = [["gene_id", "Symbol", "Chr", "Length", *[f"GSM{9000 + i}" for i in range(48)]]]
    for k, name in enumerate(names):
        values = [f"{v:.3f}" for v in X[:, k]]
        place = [f"GEN{k}", f"chr{rng.integers(1, 23)}", str(rng.integers(400, 90000))]
        rows.append([name, *place, *values])
    return table(write(folder / "expression.tsv", rows, "\t"), X, names, shared)


def european(folder, seed):
    """Semicolons, decimal commas, Latin-1, points as thousands separators, dates and comments."""
    rng = np.random.default_rng(seed)
    Z, shared = factors(rng, 90, 30, 12)
    scale = np.exp(rng.uniform(0.0, 6.0, 30))
    X = scale * (6.0 + Z)
    names = [f"Größe {k + 1} (µg/l)" for k in range(30)]

    def form(value):
        return f"{value:,.2f}".replace(",", "_").replace(".", ",").replace("_", ".")

    rows = [["Probe Nr.", "Datum", "Gerät", *names, "Bemerkung"]]
    for i, row in enumerate(X):
        first = [f"L-{i + 1:04d}", f"{1 + i % 28:02d}.{1 + i // 28:02d}.2023", "AB"[i % 2]]
        cells = ["n.b." if rng.random() < 0.01 else form(v) for v in row]
        rows.append([*first, *cells, "trüb" if i % 17 == 0 else ""])
    path = write(folder / "labor.csv", rows, ";", "latin-1")
    return table(path, X, names, shared)


def survey(folder, seed):
    """Scales from 1 to 7 with answers "don't know", sex and age group."""
    rng = np.random.default_rng(seed)
    Z, shared = factors(rng, 320, 40, 16)
    X = np.clip(np.round(4.0 + 1.3 * Z / Z.std(axis=0)), 1, 7)
    names = [f"Q{k + 1}" for k in range(40)]
    rows = [["respondent", "gender", "age group", *names]]
    for i, row in enumerate(X):
        cells = [
            "don't know" if u < 0.02 else "99" if u < 0.022 else f"{v:.0f}"
            for u, v in zip(rng.random(40), row)
        ]
        person = [
            f"R{i + 1}",
            rng.choice(["female", "male"]),
            rng.choice(["18-39", "40-64", "65+"]),
        ]
        rows.append([*person, *cells])
    return table(write(folder / "survey.csv", rows), X, names, shared)


def species(folder, seed):
    """Counts of species at sites, with unequal effort and a total."""
    rng = np.random.default_rng(seed)
    Z, shared = factors(rng, 80, 50, 18)
    rate = np.exp(rng.uniform(0.5, 3.5, 50) + 0.6 * Z)
    effort = np.exp(rng.normal(0.0, 0.8, (80, 1)))
    X = rng.poisson(effort * rate).astype(float)
    names = [f"{a} {b}" for a in ("Carex", "Poa", "Salix", "Viola", "Rubus") for b in "abcdefghij"]
    rows = [["site", "habitat", *names]]
    for i, row in enumerate(X):
        rows.append([f"plot {i + 1}", ["meadow", "forest"][i % 2], *[f"{v:.0f}" for v in row]])
    return table(write(folder / "species.csv", rows), X, names, shared, counts=True)


def fields(folder, seed):
    """Fields with a variety, a block, a year, and measurements."""
    rng = np.random.default_rng(seed)
    Z, shared = factors(rng, 120, 26, 10)
    block = rng.integers(0, 4, 120)
    X = 20.0 + 3.0 * Z + 3.0 * rng.standard_normal((4, 26))[block]
    names = [f"trait_{k + 1}" for k in range(26)]
    rows = [["plot", "variety", "block", "treatment", *names]]
    for i, row in enumerate(X):
        factors_of_plot = [f"V{i % 6 + 1}", f"B{block[i] + 1}", rng.choice(["N0", "N100"])]
        rows.append([i + 1, *factors_of_plot, *[f"{v:.2f}" for v in row]])
    fit = {"covariates": np.eye(4)[block][:, 1:]}
    return table(write(folder / "fields.csv", rows), X, names, shared, fit)


def visits(folder, seed):
    """Three visits of each patient; patients differ in all variables."""
    rng = np.random.default_rng(seed)
    Z, shared = factors(rng, 150, 40, 16)
    patient = np.repeat(np.arange(50), 3)
    X = 5.0 + Z + (1.2 * rng.standard_normal((50, 40)))[patient]
    names = [f"marker_{k + 1}" for k in range(40)]
    rows = [["patient", "visit", "centre", *names]]
    for i, row in enumerate(X):
        centre = ["Basel", "Bern", "Genf"][patient[i] % 3]
        rows.append([f"P{patient[i] + 1:02d}", i % 3 + 1, centre, *[f"{v:.3f}" for v in row]])
    return table(write(folder / "visits.csv", rows), X, names, shared, {"groups": patient})


def small(folder, seed):
    """Twelve samples and 300 proteins, with missing values and a condition."""
    rng = np.random.default_rng(seed)
    Z, shared = factors(rng, 12, 300, 90, rank=1, strength=2.5)
    X = 22.0 + Z
    names = [f"PROT{k + 1}" for k in range(300)]
    rows = [["sample", "condition", *names]]
    for i, row in enumerate(X):
        cells = ["NaN" if rng.random() < 0.005 else f"{v:.3f}" for v in row]
        rows.append([f"s{i + 1}", ["wt", "ko"][i // 6], *cells])
    return table(write(folder / "proteins.csv", rows), X, names, shared)


def age_and_sex(folder, seed):
    """Blood values that age and sex correlate, with -999 for missing values."""
    rng = np.random.default_rng(seed)
    Z, shared = factors(rng, 200, 36, 12)
    age = rng.integers(18, 85, 200)
    sex = rng.integers(0, 2, 200)
    covariates = np.column_stack([(age - 50) / 18.0, sex - 0.5])
    X = 10.0 + Z + covariates @ (rng.choice([-0.8, 0.8], (2, 36)) * rng.uniform(0.6, 1.4, (2, 36)))
    names = [f"blood_{k + 1}" for k in range(36)]
    rows = [["ID", "age", "sex", *names]]
    for i, row in enumerate(X):
        cells = ["-999" if rng.random() < 0.01 else f"{v:.2f}" for v in row]
        rows.append([1000 + 7 * i, age[i], "mf"[sex[i]], *cells])
    return table(write(folder / "blood.csv", rows), X, names, shared, {"covariates": covariates})


def large(folder, seed, n=50_000):
    """50,000 rows and 500 columns, with a running number and a few missing values."""
    rng = np.random.default_rng(seed)
    X, shared = factors(rng, n, 500, 100, strength=0.3)
    names = [f"sensor_{k + 1}" for k in range(500)]
    X = np.round(X, 2)
    holes = np.zeros(X.shape, dtype=bool)
    holes[rng.integers(0, n, 400), rng.integers(0, 500, 400)] = True
    path = folder / "sensors.csv"
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join(["nr", *names]) + "\n")
        for start in range(0, n, 5000):
            part = np.where(holes[start : start + 5000], np.nan, X[start : start + 5000])
            for i, row in enumerate(part.tolist()):
                cells = ",".join("" if np.isnan(v) else f"{v:.2f}" for v in row)
                file.write(f"{start + i + 1},{cells}\n")
    return table(path, X, names, shared)


def real_genes(folder, seed, X, stem, in_rows):
    """Real expression values with permuted copies of one gene in ten."""
    rng = np.random.default_rng(seed)
    n, p = X.shape
    copies = rng.choice(p, p // 10, replace=False)
    # Each copy has a different row permutation.
    null = np.take_along_axis(X[:, copies], np.argsort(rng.random((n, len(copies))), axis=0), 0)
    X = np.round(np.hstack([X, null]).astype(float), 4)
    names = [f"gene{k + 1}_at" for k in range(p)] + [f"AFFX{k + 1}_at" for k in range(len(copies))]
    if in_rows:
        rows = [["Gene Description", "Accession", *[f"sample{i + 1}" for i in range(n)]]]
        rows += [
            [f"protein, subunit {k % 40} ({k})", name, *column]
            for k, (name, column) in enumerate(zip(names, X.T.tolist()))
        ]
        path = write(folder / f"{stem}.txt", rows, "\t")
    else:
        rows = [["", "tissue", *names]]
        rows += [
            [f"T{i + 1}", ["tumour", "normal"][i % 2], *row] for i, row in enumerate(X.tolist())
        ]
        path = write(folder / f"{stem}.csv", rows)
    return MessyTable(path, X, names, None, {*names[p:]}, {}, {})


def golub(folder, seed, data):
    """38 x 3,051 expression values, genes in rows."""
    with np.load(Path(data) / "golub_leukemia_38x3051.npz") as stored:
        return real_genes(folder, seed, stored["X"], "golub", True)


def colon(folder, seed, data):
    """62 x 2,000 expression values, logarithms, samples in rows."""
    with np.load(Path(data) / "colon_alon_62x2000.npz") as stored:
        return real_genes(folder, seed, np.log2(stored["X"]), "colon", False)


SIMULATED: dict[str, Callable[[Path, int], MessyTable]] = {
    generator.__name__: generator
    for generator in (
        metabolomics,
        genes_in_rows,
        european,
        survey,
        species,
        fields,
        visits,
        small,
        age_and_sex,
    )
}
REAL = {generator.__name__: generator for generator in (golub, colon)}
