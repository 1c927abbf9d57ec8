"""Links from variable names to public databases.

Names are linked only if nearly all of them are identifiers of the same database, because single
names may resemble identifiers by accident.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MIN_MATCHING = 0.95  # minimum proportion of names that match the pattern
MIN_NAMES = 10  # minimum number of names
MIN_KNOWN = 3  # minimum number of known identifiers, for patterns that also match other words


class Database(NamedTuple):
    """Public database with one page for each identifier."""

    name: str
    url: str  # address of a page without the identifier
    pattern: re.Pattern[str]
    known: frozenset[str] = frozenset()  # identifiers; some of them must be among the names


# Symbols that occur in almost every table of human genes.
_COMMON_GENES = """
ACTB ACTG1 ALB APOE ATM B2M BAX BCL2 BRAF BRCA1 BRCA2 CCND1 CD14 CD19 CD2 CD3D CD3E CD4 CD74
CD79A CD79B CD8A CDH1 CDKN1A CDKN2A COL1A1 CST3 CTNNB1 CYP1A1 EGFR ERBB2 ESR1 FOS FTH1 FTL GAPDH
GATA3 GNLY HBA1 HBB HLA-A HLA-B HLA-DRA HLA-DRB1 HSP90AA1 IFNG IL2 IL6 IL7R JUN KIT KRAS KRT18
KRT19 KRT5 KRT8 LDHA LYZ MALAT1 MKI67 MPO MS4A1 MYB MYC NKG7 NRAS PCNA PGR PPBP PTEN PTPRC RB1
RPL3 RPLP0 RPS6 S100A8 S100A9 STAT1 STAT3 TNF TOP2A TP53 TUBB VEGFA VIM ZYX
"""
DATABASES = (
    Database(
        "Ensembl",
        "https://www.ensembl.org/id/",
        re.compile(r"ENS[A-Z]{0,4}[GTPE]\d{11}(\.\d+)?"),
    ),
    Database(
        "UniProt",
        "https://www.uniprot.org/uniprotkb/",
        re.compile(r"[OPQ]\d[A-Z0-9]{3}\d|[A-NR-Z]\d([A-Z][A-Z0-9]{2}\d){1,2}"),
    ),
    Database(
        "GeneCards",
        "https://www.genecards.org/cgi-bin/carddisp.pl?gene=",
        re.compile(r"[A-Z][A-Z0-9]{1,11}([-.][A-Z0-9]{1,6}){0,2}|C\d+orf\d+"),
        frozenset(_COMMON_GENES.split()),
    ),
)


def find_database(names: list[str]) -> Database | None:
    """Return the database that the names are identifiers of, or None."""
    if len(names) < MIN_NAMES:
        return None
    for database in DATABASES:
        n_matching = sum(database.pattern.fullmatch(name) is not None for name in names)
        n_known = len(database.known.intersection(names)) if database.known else MIN_KNOWN
        if n_matching >= MIN_MATCHING * len(names) and n_known >= MIN_KNOWN:
            return database
    return None
