"""Where names of variables can be looked up: only if the names as a whole are identifiers of one
kind, never because a single word happens to look like one."""

from __future__ import annotations

import re
from typing import NamedTuple

_NEARLY_ALL = 0.95  # of the names must have the form
_FEWEST = 10  # names
_KNOWN_SYMBOLS = 3  # that must be among the names, for forms that other words have as well


class Place(NamedTuple):
    """A site, and how an identifier becomes an address there."""

    name: str
    address: str  # what comes before the identifier
    form: re.Pattern[str]
    known: frozenset[str] = frozenset()  # of which some must be among the names


# Genes that nearly every table of human genes has some of.
_COMMON_GENES = """
ACTB ACTG1 ALB APOE ATM B2M BAX BCL2 BRAF BRCA1 BRCA2 CCND1 CD14 CD19 CD2 CD3D CD3E CD4 CD74
CD79A CD79B CD8A CDH1 CDKN1A CDKN2A COL1A1 CST3 CTNNB1 CYP1A1 EGFR ERBB2 ESR1 FOS FTH1 FTL GAPDH
GATA3 GNLY HBA1 HBB HLA-A HLA-B HLA-DRA HLA-DRB1 HSP90AA1 IFNG IL2 IL6 IL7R JUN KIT KRAS KRT18
KRT19 KRT5 KRT8 LDHA LYZ MALAT1 MKI67 MPO MS4A1 MYB MYC NKG7 NRAS PCNA PGR PPBP PTEN PTPRC RB1
RPL3 RPLP0 RPS6 S100A8 S100A9 STAT1 STAT3 TNF TOP2A TP53 TUBB VEGFA VIM ZYX
"""
PLACES = (
    Place(
        "Ensembl",
        "https://www.ensembl.org/id/",
        re.compile(r"ENS[A-Z]{0,4}[GTPE]\d{11}(\.\d+)?"),
    ),
    Place(
        "UniProt",
        "https://www.uniprot.org/uniprotkb/",
        re.compile(r"[OPQ]\d[A-Z0-9]{3}\d|[A-NR-Z]\d([A-Z][A-Z0-9]{2}\d){1,2}"),
    ),
    Place(
        "GeneCards",
        "https://www.genecards.org/cgi-bin/carddisp.pl?gene=",
        re.compile(r"[A-Z][A-Z0-9]{1,11}([-.][A-Z0-9]{1,6}){0,2}|C\d+orf\d+"),
        frozenset(_COMMON_GENES.split()),
    ),
)


def place_of(names: list[str]) -> Place | None:
    """Where these names are known, or None."""
    if len(names) < _FEWEST:
        return None
    for place in PLACES:
        fitting = sum(place.form.fullmatch(name) is not None for name in names)
        known = len(place.known.intersection(names)) if place.known else _KNOWN_SYMBOLS
        if fitting >= _NEARLY_ALL * len(names) and known >= _KNOWN_SYMBOLS:
            return place
    return None
