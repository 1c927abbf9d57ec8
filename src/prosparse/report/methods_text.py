"""Paragraph on the methods of an analysis, for a paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._version import __version__
from ..findings import Findings
from ..phrases import quote_name
from ..stability import PermutationNull, Stability

_BH95 = (
    "Benjamini Y, Hochberg Y (1995) Controlling the false discovery rate. Journal of the Royal "
    "Statistical Society B 57, 289-300."
)
_BC15 = (
    "Barber RF, Candès EJ (2015) Controlling the false discovery rate via knockoffs. Annals of "
    "Statistics 43, 2055-2085."
)
_SS13 = (
    "Shah RD, Samworth RJ (2013) Variable selection with error control: another look at stability "
    "selection. Journal of the Royal Statistical Society B 75, 55-80."
)
_REFERENCES = {
    "GSPPCA": (
        "Bouveyron C, Latouche P, Mattei P-A (2018) Bayesian variable selection for globally "
        "sparse probabilistic PCA. Electronic Journal of Statistics 12, 3036-3070."
    ),
    "SCA": (
        "Archambeau C, Bach FR (2008) Sparse probabilistic projections. Advances in Neural "
        "Information Processing Systems 21."
    ),
    "SPPCA": (
        "Bouveyron C, Jacques J (2015) Un algorithme EM pour une version parcimonieuse de "
        "l'analyse en composantes principales probabiliste. Extraction et gestion des "
        "connaissances (EGC)."
    ),
    "EMPCA": (
        "Sigg CD, Buhmann JM (2008) Expectation-maximization for sparse and non-negative PCA. "
        "Proceedings of the 25th International Conference on Machine Learning, 960-967."
    ),
    "SpinyRegressor": (
        "Latouche P, Mattei P-A, Bouveyron C, Chiquet J (2016) Combining a relaxed EM algorithm "
        "with Occam's razor for Bayesian variable selection in high-dimensional regression. "
        "Journal of Multivariate Analysis 146, 177-190."
    ),
}
_REFERENCES["SpinyClassifier"] = _REFERENCES["SpinyRegressor"]
_METHODS = {
    "GSPPCA": "Variables were selected by globally sparse probabilistic PCA",
    "SCA": "Sparse factors were estimated by sparse probabilistic projections",
    "SPPCA": "Variables were selected by probabilistic PCA with an l1 penalty on the loadings",
    "EMPCA": "Sparse principal components were estimated by expectation maximisation",
    "Panel": (
        "A panel of variables that predicts all others was selected by a factor model and "
        "evaluated on held-out rows"
    ),
    "SpinyRegressor": "Predictors of the response were selected by Bayesian variable selection",
    "SpinyClassifier": "Predictors of the classes were selected by Bayesian variable selection",
}


def describe_methods(found: Findings, about: Mapping[str, Any]) -> list[str]:
    """Describe an analysis for a paper: a paragraph, followed by references.

    ``about`` describes the analysis, as in `prosparse.report.write_report`.
    """
    sentences = _describe_table(found, about)
    references: list[str] = []
    if found.method == "FDRPCA":
        sentences += _describe_tests(found, references)
    else:
        method = _METHODS.get(found.method, f"Variables were selected by {found.method}")
        sentences.append(f"{method} ({found.method}): {found.reason}.")
        references += filter(None, [_REFERENCES.get(found.method)])
    null = PermutationNull.from_json(about.get("permutation_null"))
    if null is not None:
        sentences.append(
            f"The analysis was repeated on {null.n_permutations} null datasets, in which "
            f"{null.expected_n_selected:.2g} variables were selected on average."
        )
    stability = Stability.from_json(about.get("stability"), found.names)
    if stability is not None:
        sentences.append(
            f"Selection frequencies were estimated from {stability.n_subsamples} random halves of "
            "the rows (stability selection with complementary pairs)."
        )
        references.append(_SS13)
    versions = about.get("versions") or {}
    others = [f"{name} {versions[name]}" for name in ("python", "numpy", "scipy", "scikit-learn")
              if name in versions]  # fmt: skip
    software = f"prosparse {versions.get('prosparse', __version__)}"
    listed = f" ({', '.join(others)})" if others else ""
    sentences.append(f"The analysis was done with {software}{listed}.")
    return [" ".join(sentences), *references]


def _describe_table(found: Findings, about: Mapping[str, Any]) -> list[str]:
    data, settings = about.get("data") or {}, about.get("settings") or {}
    size = f"{len(found.names):,} variables"
    if "rows" in data:
        size = f"{data['rows']} rows and {size}"
    sentences = [f"The table had {size}."]
    changes = {
        "log(1 + x)": "Values were transformed by log(1 + x).",
        "scaled to unit variance": "Columns were scaled to unit variance.",
    }
    sentences += [
        changes[settings[key]] for key in ("values", "columns") if settings.get(key) in changes
    ]
    if settings.get("missing values") == "imputed":
        sentences.append(
            "Missing values were handled by the model."
            if found.method in ("FDRPCA", "Panel", "SCA")
            else "Missing values were imputed from principal components."
        )
    elif settings.get("missing values") == "dropped":
        sentences.append("Rows or columns with missing values were removed.")
    if "groups" in data:
        sentences.append(f"Rows were compared within the groups of {quote_name(data['groups'])}.")
    if found.covariates is not None:
        names = ", ".join(map(quote_name, found.covariates.names))
        sentences.append(f"The effects of {names} were removed by linear regression.")
    return sentences


def _describe_tests(found: Findings, references: list[str]) -> list[str]:
    parameters = found.parameters
    knockoff = parameters.get("control") == "knockoff"
    references.append(_BC15 if knockoff else _BH95)
    control = "knockoffs" if knockoff else "the Benjamini-Hochberg procedure"
    text = (
        "Each variable was tested for variance shared with the principal components of the other "
        f"variables, and selected at a false discovery rate of {float(parameters['fdr']):.3g} by "
        f"{control} (FDRPCA)."
    )
    minimum = float(parameters["min_communality"])
    sentences = [text]
    if minimum:
        sentences.append(f"A communality of at least {minimum:.3g} was required.")
    if parameters.get("counts"):
        sentences.append("Counts were converted to Pearson residuals given the row totals.")
    d = found.loadings.shape[0]
    sentences.append(
        f"{found.n_selected:,} variables were selected and summarised by {d} principal "
        f"component{'s' if d != 1 else ''}."
    )
    return sentences
