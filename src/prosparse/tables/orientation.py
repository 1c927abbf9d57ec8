"""Detection and transposition of tables with variables in rows.

Files of gene expression usually have one line per gene and one column per sample. Without
transposition, the selected "variables" would be samples. Typical names of samples and genes
indicate the orientation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .base import ALL_TEXT, ReadOptions, Table, make_unique, quote, raise_unknown_column
from .formulas import unescape_formula

MIN_RATIO = 5  # minimum ratio of rows to columns that is reported
MIN_PROPORTION = 0.8  # minimum proportion of names of one type
MIN_NAMES = 4  # minimum number of names to determine their type
# Names of the first column of tables whose rows are variables.
_VARIABLES = re.compile(
    r"(?:gene|symbol|hgnc|probe|probeset|idref|feature|variable|transcript|protein|ensembl|entrez|"
    r"metabolite|otu|asv|taxon|taxa|marker|snp|cpg|analyte|peptide|locus|mirna|accession)s?"
    r"(?:ids?|names?|symbols?|gene|number|accession)?"
)
# Accession numbers of samples, and nouns for samples followed by a number.
_SAMPLE = re.compile(
    r"(?:GSM|SRR|ERR|DRR|SAMN|SAMEA)\d+.*|(?:TCGA|GTEX|TARGET)-.+|"
    r"(?i:sample|patient|subject|donor|participant|case|control|ctrl|tumou?r|normal|mouse|animal|"
    r"individual|person|specimen|replicate|treated|untreated)s?[\s_.\-]*[a-z]{0,2}\d+"
)
# Accession numbers of genes, transcripts, probes and variants.
_GENE = re.compile(
    r"ENS[A-Z]*[GTP]\d{6,}.*|(?:AFFX-)?\w+_at|ILMN_\d+|cg\d{6,}|rs\d+|[NX][MRP]_\d+.*|A_\d+_P\d+|"
    r"(?i:gene|probe|protein|transcript)[\s_.\-]*\d+"
)


def note_orientation(table: Table, transposed: bool) -> list[str]:
    """Return a note if the rows of a table look like variables."""
    reasons = find_orientation(table.id_name, table.names, table.ids or (), table.X.shape)
    if not reasons:
        return []
    remedy = (
        "remove --transpose if each row of the file is a sample"
        if transposed
        else "use --transpose if each row of the file is a variable"
    )
    return [f"rows may be variables and columns samples ({'; '.join(reasons)}); {remedy}"]


def find_orientation(
    id_name: str, names: Sequence[str], ids: Sequence[str], shape: tuple[int, int]
) -> list[str]:
    """Return the reasons why rows may be variables and columns samples."""
    reasons = []
    if _VARIABLES.fullmatch(re.sub(r"[\s_.\-]+", "", id_name.lower())):
        reasons.append(f"the first column has the name {quote(id_name)}")
    samples, genes = _names_of_type(_SAMPLE, names), _names_of_type(_GENE, ids)
    if samples:
        reasons.append(f"the columns are named like samples, such as {quote(samples[0])}")
    if genes:
        reasons.append(f"the rows are named like genes or probes, such as {quote(genes[0])}")
    n, p = shape
    if reasons and n >= MIN_RATIO * p:
        reasons.append(f"there are more rows ({n:,}) than columns ({p:,})")
    return reasons


def _names_of_type(pattern: re.Pattern[str], names: Sequence[str]) -> list[str]:
    """Return the matching names if most names match; otherwise none."""
    matching = [name for name in names if pattern.fullmatch(name.strip())]
    enough = len(names) >= MIN_NAMES and len(matching) >= MIN_PROPORTION * len(names)
    return matching if enough else []


def looks_like_variable_names(name: str, values: Sequence[str]) -> bool:
    """Return whether a column contains names of genes or other variables."""
    normalised = re.sub(r"[\s_.\-]+", "", name.lower())
    return bool(_VARIABLES.fullmatch(normalised) or _names_of_type(_GENE, values))


# --- rows that are requested by name


class NamedRows(NamedTuple):
    """Annotation rows, or rows to drop, of a table with variables in rows."""

    names: frozenset[str]
    id_position: int  # column with the row names

    def remove_from(self, rows: Iterable[list[str]]) -> list[list[str]]:
        """Return the rows that were not requested."""
        return [row for row in rows if not self.includes(row)]

    def includes(self, row: list[str]) -> bool:
        """Return whether the row was requested."""
        return bool(self.names) and self.id_position < len(row) and self.name_of(row) in self.names

    def name_of(self, row: list[str]) -> str:
        """Return the name of the row."""
        return unescape_formula(row[self.id_position].strip())


def split_named_rows(names: Sequence[str], options: ReadOptions) -> tuple[ReadOptions, NamedRows]:
    """Separate the options for columns from the rows requested by name."""
    if not options.transpose:
        return options, NamedRows(frozenset(), 0)
    known = {*names, ALL_TEXT}
    columns, rows = list[str](), list(options.annotations.values())
    for value in options.ignore:
        for name in [value] if value in known else map(str.strip, value.split(",")):
            (columns if name in known else rows).append(name)
    id_position = next((k for k, name in enumerate(names) if name == options.row_names), 0)
    column_options = options.without_annotations()._replace(ignore=tuple(columns))
    return column_options, NamedRows(frozenset(rows), id_position)


# --- transposition


def transpose_table(table: Table, options: ReadOptions) -> Table:
    """Transpose the data matrix and exchange names and ids.

    Rows that are requested by name become annotations or are dropped. Their values are in the text
    stored by the reader, or among the numbers.
    """
    names = table.ids or [f"x{k}" for k in range(table.X.shape[0])]
    _, requested = split_named_rows(
        [], options._replace(ignore=_rows_to_drop(table, names, options))
    )
    position = {name: k for k, name in reversed(list(enumerate(names)))}
    for name in requested.names:
        if name not in table.named_rows and name not in position:
            raise_unknown_column(table.path, name, [*table.named_rows, *names], "row")
    annotations: dict[str, Any] = {
        role: list(table.named_rows[name])
        if name in table.named_rows
        else _row(table.X, position[name])
        for role, name in options.annotations.items()
    }
    remaining = [k for k, name in enumerate(names) if name not in requested.names]
    unique, repeated = make_unique([names[k] for k in remaining], "rows")
    X = table.X if len(remaining) == len(names) else table.X[remaining]
    return (
        table._replace(
            X=X.T.tocsr() if hasattr(X, "tocsr") else np.asarray(X).T,
            names=unique,
            ids=table.names,
            id_name="",
            named_rows={},
        )
        .with_annotations(annotations)
        .with_notes("the table was transposed", *repeated)
    )


def _rows_to_drop(table: Table, names: Sequence[str], options: ReadOptions) -> tuple[str, ...]:
    parts = [part.strip() for value in options.ignore for part in (value, *value.split(","))]
    known = {*table.named_rows, *names}
    return tuple(part for part in parts if part in known)


def _row(X: Any, k: int) -> list[Any]:
    row = X[[k]]
    return list(np.ravel(row.toarray() if hasattr(row, "toarray") else row).tolist())
