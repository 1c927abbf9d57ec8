"""Tables with variables in rows: noticed by their names, and turned round when that is asked.

Files of genes mostly have a line for each gene and a column for each sample. Read the other way
round, the "variables" that are chosen are samples: an answer that looks like one. Names tell: those
that archives and laboratories give to samples, and those of genes and probes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .base import ALL_TEXT, ReadOptions, Table, quietly, unique_names, unknown_column
from .formulas import unescaped

_MANY = 5  # times as many rows as columns are far more
_MOST = 0.8  # of the names must be of one kind
_FEWEST = 4  # names, to tell their kind
# What the first column is called where the rows are variables.
_VARIABLES = re.compile(
    r"(?:gene|symbol|hgnc|probe|probeset|idref|feature|variable|transcript|protein|ensembl|entrez|"
    r"metabolite|otu|asv|taxon|taxa|marker|snp|cpg|analyte|peptide|locus|mirna)s?"
    r"(?:ids?|names?|symbols?|gene)?"
)
# Accession numbers of samples, and words for samples with a number behind them.
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


def tell_orientation(table: Table, transposed: bool) -> list[str]:
    """A note, if the rows of a table look like variables."""
    n, p = table.X.shape
    seen = []
    if _VARIABLES.fullmatch(re.sub(r"[\s_.\-]+", "", table.ids_called.lower())):
        seen.append(f"the first column is called {quietly(table.ids_called)}")
    if _most(_SAMPLE, table.names):
        seen.append(f"the columns are called like samples: {_some(table.names)}")
    if _most(_GENE, table.ids or ()):
        seen.append(f"the rows are called like genes or probes: {_some(table.ids or ())}")
    if not seen:
        return []
    if n >= _MANY * p:
        seen.append(f"there are far more rows ({n:,}) than columns ({p:,})")
    what_to_do = (
        "they were exchanged, as asked: if each row of the file is a sample, leave --transpose out"
        if transposed
        else "if every row is a variable, say --transpose"
    )
    return [f"rows may be variables, and columns samples ({'; '.join(seen)}): {what_to_do}"]


def _most(kind: re.Pattern[str], names: Sequence[str]) -> bool:
    if len(names) < _FEWEST:
        return False
    return sum(kind.fullmatch(name.strip()) is not None for name in names) >= _MOST * len(names)


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(quietly, names[:2])) + ", ..."


# --- rows that were asked for by name


class NamedRows(NamedTuple):
    """With ``--transpose``, rows that hold labels or are to be left out: they may be text."""

    wanted: frozenset[str]
    at: int  # the column with the names of the rows

    def without(self, rows: Iterable[list[str]]) -> list[list[str]]:
        """The other rows."""
        return [row for row in rows if not self.has(row)]

    def has(self, row: list[str]) -> bool:
        """Whether the row was asked for."""
        return bool(self.wanted) and self.at < len(row) and self.name(row) in self.wanted

    def name(self, row: list[str]) -> str:
        """What the row is called."""
        return unescaped(row[self.at].strip())


def rows_by_name(names: Sequence[str], ask: ReadOptions) -> tuple[ReadOptions, NamedRows]:
    """What is asked of the columns, and the rows that are asked for by name."""
    if not ask.transpose:
        return ask, NamedRows(frozenset(), 0)
    known = {*names, ALL_TEXT}
    of_columns, of_rows = list[str](), list(ask.aside.values())
    for asked in ask.drop:
        for one in [asked] if asked in known else map(str.strip, asked.split(",")):
            (of_columns if one in known else of_rows).append(one)
    at = next((k for k, name in enumerate(names) if name == ask.id_column), 0)
    columns = ask.without_aside()._replace(drop=tuple(of_columns))
    return columns, NamedRows(frozenset(of_rows), at)


# --- turned round


def transposed(table: Table, ask: ReadOptions) -> Table:
    """Variables were in rows: the ids become names, and the names ids.

    Rows that were asked for by name are taken out: from the text that the reader kept, or from the
    numbers.
    """
    names = table.ids or [f"x{k}" for k in range(table.X.shape[0])]
    _, rows = rows_by_name([], ask._replace(drop=_of_rows(table, names, ask)))
    position = {name: k for k, name in reversed(list(enumerate(names)))}
    for name in rows.wanted:
        if name not in table.rows and name not in position:
            unknown_column(table.path, name, [*table.rows, *names], "row")
    aside = {
        what: list(table.rows[name]) if name in table.rows else _row(table.X, position[name])
        for what, name in ask.aside.items()
    }
    kept = [k for k, name in enumerate(names) if name not in rows.wanted]
    unique, repeated = unique_names([names[k] for k in kept], "rows")
    X = table.X if len(kept) == len(names) else table.X[kept]
    return table._replace(
        X=X.T.tocsr() if hasattr(X, "tocsr") else np.asarray(X).T,
        names=unique,
        ids=table.names,
        ids_called="",
        notes=[*table.notes, "rows and columns were exchanged, as asked", *repeated],
        label=aside.get("label", table.label),
        groups=aside.get("groups", table.groups),
        response=aside.get("response", table.response),
        rows={},
    )


def _of_rows(table: Table, names: Sequence[str], ask: ReadOptions) -> tuple[str, ...]:
    """Of what is to be left out, that which is a row."""
    parts = [one.strip() for asked in ask.drop for one in (asked, *asked.split(","))]
    known = {*table.rows, *names}
    return tuple(one for one in parts if one in known)


def _row(X: Any, k: int) -> list[Any]:
    row = X[[k]]
    return list(np.ravel(row.toarray() if hasattr(row, "toarray") else row).tolist())
