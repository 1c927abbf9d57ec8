"""E34: the check of a table, on planted defects, clean tables and the real data sets.

A random table has factors in some columns, unit-specific scales, and normal, lognormal or
heavy-tailed entries. Each defect is planted into each table, as a person would make it. A defect is
found if a finding of the expected kind names the affected rows or columns. A false alarm is a
problem or warning about a table without a defect.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from prosparse.checks import Finding, Severity, check, check_file

from .base import Claim, Experiment, PageTable, Result, Row
from .data import Data

Array = np.ndarray

N_TABLES, N_CLEAN = 200, 100
MIN_FOUND, MAX_FALSE_ALARMS = 0.95, 0.02
N_DATA_ROWS, N_DATA_COLUMNS = 3000, 3000


class Planted(NamedTuple):
    """Table with a defect: an array, or the cells of a file with a header."""

    table: Array | list[list[str]]
    code: str  # kind of the expected finding
    rows: tuple[int, ...] = ()  # affected rows
    columns: tuple[int, ...] = ()  # affected columns


def random_table(rng: np.random.Generator) -> Array:
    """Draw a clean table of 30 to 200 rows and 12 to 100 columns."""
    n, p = int(rng.integers(30, 200)), int(rng.integers(12, 100))
    rank, shared = int(rng.integers(1, 4)), int(rng.integers(4, p))
    kind = rng.choice(["normal", "lognormal", "heavy tails"])
    factors = rng.standard_normal((n, rank))
    Z = rng.standard_normal((n, p)) if kind != "heavy tails" else rng.standard_t(5, (n, p))
    Z[:, :shared] += factors @ (rng.uniform(0.3, 1.5) * rng.standard_normal((rank, shared)))
    Z = Z[:, rng.permutation(p)]
    if kind == "lognormal":
        return np.exp(rng.normal(size=p)) * np.exp(0.5 * Z)
    return (rng.uniform(3.0, 30.0, p) + Z) * np.exp(rng.normal(size=p))


def to_cells(X: Array, names: list[str] | None = None) -> list[list[str]]:
    """Return a table as the cells of a file, with names of rows and columns."""
    header = ["sample", *(names or [f"v{k + 1}" for k in range(X.shape[1])])]
    rows = [[f"S{i + 1}", *[f"{v:.5g}" for v in row]] for i, row in enumerate(X.tolist())]
    return [header, *rows]


# --- defects


def _pick(rng: np.random.Generator, size: int, count: int = 1) -> tuple[int, ...]:
    return tuple(map(int, np.sort(rng.choice(size, count, replace=False))))


def units_row(X: Array, rng: np.random.Generator) -> Planted:
    """Put the units below the header."""
    cells = to_cells(X)
    units = rng.choice(["mg/l", "µmol/L", "kg", "cm", "%", "U/l"], X.shape[1])
    return Planted([cells[0], ["", *units.tolist()], *cells[1:]], "units")


def text_code(X: Array, rng: np.random.Generator) -> Planted:
    """Write a code for missing values into 2 % of the cells."""
    cells, code = to_cells(X), str(rng.choice(["n.d.", "don't know", "NA?", "missing", "xx"]))
    (column,) = _pick(rng, X.shape[1])
    for row in _pick(rng, X.shape[0], max(1, X.shape[0] // 10)):
        cells[row + 1][column + 1] = code
    return Planted(cells, "missing-texts", columns=(column,))


def numeric_code(X: Array, rng: np.random.Generator) -> Planted:
    """Write -999 or 9999 for missing values into three cells."""
    X, code = X.copy(), float(rng.choice([-999.0, 9999.0, -9999.0]))
    (column,) = _pick(rng, X.shape[1])
    X[_pick(rng, X.shape[0], 3), column] = code
    return Planted(X, "missing-codes", columns=(column,))


def limits(X: Array, rng: np.random.Generator) -> Planted:
    """Replace the smallest values of three columns by a limit of detection."""
    cells, columns = to_cells(X), _pick(rng, X.shape[1], 3)
    for k in columns:
        limit = np.quantile(X[:, k], 0.15)
        for row in np.flatnonzero(X[:, k] < limit):
            cells[row + 1][k + 1] = str(rng.choice(["<LOD", f"<{limit:.3g}"]))
    return Planted(cells, "censored-values", columns=columns)


def thousands(X: Array, rng: np.random.Generator) -> Planted:
    """Write one column with separators of thousands."""
    cells = to_cells(X)
    (column,) = _pick(rng, X.shape[1])
    values = 1e5 * (1.0 + np.abs(X[:, column] / X[:, column].std()))
    for row, value in enumerate(values.tolist()):
        cells[row + 1][column + 1] = f"{value:,.0f}"
    return Planted(cells, "thousands-separators", columns=(column,))


def repeated_measures(X: Array, rng: np.random.Generator) -> Planted:
    """Name patients with two or three rows each."""
    cells, n_rows = to_cells(X), int(rng.integers(2, 4))
    name = str(rng.choice(["patient", "Subject ID", "donor", "animal"]))
    cells[0].insert(1, name)
    for i, row in enumerate(cells[1:]):
        row.insert(1, f"P{i // n_rows + 1:03d}")
    return Planted(cells, "repeated-ids", columns=(-1,))


def batch(X: Array, rng: np.random.Generator) -> Planted:
    """Add a column with batches."""
    cells = to_cells(X)
    cells[0].append(str(rng.choice(["Batch", "plate", "run", "centre"])))
    for row in cells[1:]:
        row.append(f"B{rng.integers(1, 5)}")
    return Planted(cells, "text-covariate", columns=(-1,))


def annotation(X: Array, rng: np.random.Generator) -> Planted:
    """Put variables in rows, with the length of each gene among the samples."""
    cells = [list(column) for column in zip(*to_cells(X), strict=True)]
    cells[0][0] = "gene_id"
    cells[0].insert(1, "Length")
    for k, row in enumerate(cells[1:]):
        row[0] = f"ENSG{10**6 + k:011d}"
        row.insert(1, str(rng.integers(300, 60_000)))
    return Planted(cells, "unlike-rows", columns=(-1,))


def duplicate_row(X: Array, rng: np.random.Generator) -> Planted:
    """Enter a row twice."""
    X = X.copy()
    first, second = _pick(rng, X.shape[0], 2)
    X[second] = X[first]
    return Planted(X, "duplicate-rows", rows=(second,))


def outlying_row(X: Array, rng: np.random.Generator) -> Planted:
    """Multiply the deviations of a row by six."""
    X = X.copy()
    (row,) = _pick(rng, X.shape[0])
    mean = X.mean(axis=0)
    X[row] = mean + 6.0 * (X[row] - mean)
    return Planted(X, "outlying-rows", rows=(row,))


def outlying_cell(X: Array, rng: np.random.Generator) -> Planted:
    """Forget a decimal mark."""
    X = X.copy()
    (row,), (column,) = _pick(rng, X.shape[0]), _pick(rng, X.shape[1])
    X[row, column] *= 1000.0
    return Planted(X, "outlying-cells", rows=(row,), columns=(column,))


def unequal_totals(X: Array, rng: np.random.Generator) -> Planted:
    """Count objects with unequal effort."""
    n, p = X.shape
    depth = np.exp(rng.normal(0.0, 0.8, (n, 1)))
    return Planted(rng.poisson(depth * rng.gamma(1.0, 10.0, p)).astype(float), "unequal-totals")


def drift(X: Array, rng: np.random.Generator) -> Planted:
    """Let four in ten columns rise or fall along the rows by three standard deviations."""
    columns = _pick(rng, X.shape[1], int(np.ceil(0.4 * X.shape[1])))
    slope = 3.0 * X.std(axis=0)[list(columns)] * rng.choice([-1.0, 1.0], len(columns))
    X = X.copy()
    X[:, columns] += np.linspace(-0.5, 0.5, X.shape[0])[:, None] * slope
    return Planted(X, "row-order")


def copied_column(X: Array, rng: np.random.Generator) -> Planted:
    """Enter a column again, in another unit."""
    X = X.copy()
    first, second = _pick(rng, X.shape[1], 2)
    X[:, second] = 2.54 * X[:, first]
    return Planted(X, "duplicate-columns", columns=(second,))


def total(X: Array, rng: np.random.Generator) -> Planted:
    """Append the sum of all columns."""
    return Planted(np.column_stack([X, X.sum(axis=1)]), "sum-columns", columns=(X.shape[1],))


DEFECTS: tuple[Callable[[Array, np.random.Generator], Planted], ...] = (
    units_row,
    text_code,
    numeric_code,
    limits,
    thousands,
    repeated_measures,
    batch,
    annotation,
    duplicate_row,
    outlying_row,
    outlying_cell,
    unequal_totals,
    drift,
    copied_column,
    total,
)


# --- measures


class Findings(NamedTuple):
    """Findings about a table, and the notes of its reader."""

    findings: tuple[Finding, ...]
    notes: list[str]


def find(table: Array | list[list[str]]) -> Findings:
    """Check an array, or write cells to a file and check the file."""
    if isinstance(table, np.ndarray):
        return Findings(check(table).findings, [])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(table)
        result = check_file(path)
    return Findings(result.check.findings, result.notes)


def is_found(planted: Planted, found: Findings) -> bool:
    """Return whether a finding of the expected kind names the rows and columns."""
    if planted.code == "units":
        return any("units" in note for note in found.notes)
    is_array = isinstance(planted.table, np.ndarray)
    columns = {f"x{k}" if is_array else f"v{k + 1}" for k in planted.columns if k >= 0}
    rows = {str(k) for k in planted.rows}
    return any(
        finding.code == planted.code and columns <= {*finding.columns} and rows <= {*finding.rows}
        for finding in found.findings
    )


def alarms(found: Findings) -> list[str]:
    """Return the codes of problems and warnings."""
    return [f.code for f in found.findings if f.severity is not Severity.NOTE]


class Draw(NamedTuple):
    """Results of one random table."""

    found: list[bool]  # of each defect
    alarms: list[str]  # of the clean table


def run_draw(seed: int) -> Draw:
    """Plant every defect into one table."""
    rng = np.random.default_rng([34, seed])
    X = random_table(rng)
    planted = [plant(X, rng) for plant in DEFECTS]
    return Draw([is_found(p, find(p.table)) for p in planted], alarms(find(X)))


def real_tables(data: Data) -> Iterator[tuple[str, Array]]:
    """Yield the matrices of the data sets, evenly spaced rows and columns of large ones."""
    for name in sorted({*REAL_DATA}):
        arrays = data(name)
        for key, X in arrays.items():
            if X.ndim != 2 or X.dtype.kind not in "iuf" or min(X.shape) < 8:
                continue
            rows = np.unique(np.linspace(0, len(X) - 1, min(len(X), N_DATA_ROWS)).astype(int))
            columns = np.linspace(0, X.shape[1] - 1, min(X.shape[1], N_DATA_COLUMNS)).astype(int)
            yield f"{name} {key}", X[np.ix_(rows, np.unique(columns))].astype(float)


REAL_DATA = (
    "golub", "colon", "armstrong", "nci60", "tcga", "urine", "mfeat", "nki", "vdx", "faces",
    "traces", "diabetes", "gtex", "sevens", "nutrimouse", "prostate", "usps",
)  # fmt: skip


def verify(finding: Finding, name: str, X: Array, data: Data) -> str:
    """Return evidence that a warning about a real data set is true, or "not verified"."""
    rows = [int(row) for row in finding.rows]
    if finding.code == "duplicate-rows":
        counts = np.unique(X, axis=0, return_counts=True)[1]
        return "equal in the file" if counts.sum() - counts.size >= len(rows) else "not verified"
    if finding.code == "duplicate-columns":
        copies = [int(column[1:]) for column in finding.columns]
        Z = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), np.inf)
        largest = np.sort(np.abs(Z[:, copies].T @ Z) / len(Z), axis=1)[:, -2]  # the last is 1
        return "correlation 1" if np.all(largest > 1.0 - 1e-9) else "not verified"
    if finding.code == "near-duplicate-rows":
        return _verify_near_duplicates(rows, name, X, data)
    if finding.code == "row-order" and name.startswith("prostate"):
        is_sorted = bool(np.all(np.diff(data("prostate")["y"]) >= 0))
        return "the file is sorted by the response" if is_sorted else "not verified"
    return "not verified"


def _verify_near_duplicates(rows: list[int], name: str, X: Array, data: Data) -> str:
    partners = [_neighbours(X, row) for row in rows]
    if not name.startswith("mfeat"):  # one view: the distances to the first two neighbours
        ratio = max(first[1][0] / first[1][1] for first in partners)
        return f"distance {ratio:.2f} of that to the next row"
    views = data("mfeat")
    view = "kar" if name.endswith("pix") else "pix"
    n_same = n_rotated = 0
    for row, (nearest, _) in zip(rows, partners, strict=True):
        other = _neighbours(np.asarray(views[view], dtype=float), row)[0]
        n_same += int(nearest[0] in other[:2])
        # Zernike moments do not change if a six is rotated to a nine.
        n_rotated += int({row // 200, nearest[0] // 200} == {6, 9} and name.endswith("zer"))
    text = f"{n_same} of {len(rows)} nearest in the view {view}"
    return text + (f", {n_rotated} a rotated six or nine" if n_rotated else "")


def _neighbours(X: Array, row: int) -> tuple[list[int], list[float]]:
    """Return the two nearest rows that are not equal, and their distances."""
    Z = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), np.inf)
    distances = np.linalg.norm(Z - Z[row], axis=1)
    order = np.argsort(distances, kind="stable")
    order = order[distances[order] > 0][:2]
    return order.tolist(), distances[order].tolist()


def _evidence(name: str, X: Array, found: Findings, data: Data) -> str:
    warnings = [f for f in found.findings if f.severity is not Severity.NOTE]
    return "; ".join(verify(finding, name, X, data) for finding in warnings)


def run(quick: bool, data: Data, folder: Path) -> Result:
    """Run the experiment."""
    n_tables, n_clean = (10, 10) if quick else (N_TABLES, N_CLEAN)
    draws = Parallel()(delayed(run_draw)(seed) for seed in range(max(n_tables, n_clean)))
    found = np.array([draw.found for draw in draws[:n_tables]])
    rows = [
        Row(f"found: {plant.__name__.replace('_', ' ')}", float(share))
        for plant, share in zip(DEFECTS, found.mean(axis=0), strict=True)
    ]
    codes = [draw.alarms for draw in draws[:n_clean]]
    false = float(np.mean([bool(c) for c in codes]))
    note = ", ".join(sorted({code for of_table in codes for code in of_table}))
    rows.append(Row("clean tables with a warning", false, note=note))
    real = [
        (name, X.shape, alarms(found), _evidence(name, X, found, data))
        for name, X in real_tables(data)
        for found in [find(X)]
    ]
    lowest = DEFECTS[int(np.argmin(found.mean(axis=0)))].__name__.replace("_", " ")
    claims = [
        Claim(
            f"Each defect is found in at least {MIN_FOUND:.0%} of {n_tables} tables.",
            bool(np.all(found.mean(axis=0) >= MIN_FOUND)),
            f"lowest: {lowest}, {found.mean(axis=0).min():.1%}",
        ),
        Claim(
            f"At most {MAX_FALSE_ALARMS:.0%} of {n_clean} clean tables have a warning.",
            false <= MAX_FALSE_ALARMS,
            f"{false:.1%}",
        ),
        Claim(
            f"At most {MAX_FALSE_ALARMS:.0%} of {len(real)} real matrices have a warning that is "
            "not verified.",
            bool(np.mean(["not verified" in e for *_, e in real]) <= MAX_FALSE_ALARMS),
            f"{sum('not verified' in e for *_, e in real)} of {sum(bool(c) for *_, c, _ in real)} "
            "with warnings",
        ),
    ]
    table = PageTable(
        "Warnings about real data sets",
        ("data", "shape", "warnings", "evidence"),
        [(name, f"{n:,} x {p:,}", ", ".join(c) or "none", e) for name, (n, p), c, e in real],
    )
    return Result(rows, claims, [], f"0 to {max(n_tables, n_clean) - 1}", tables=(table,))


EXPERIMENTS = (
    Experiment(
        "E34",
        "Check of tables: planted defects and false alarms",
        "Not from a paper",
        REAL_DATA,
        run,
    ),
)
