"""Registry of the experiments. `MODULES` lists the modules that define them."""

from __future__ import annotations

from importlib import import_module

from .base import Experiment

MODULES = (
    "simulations",  # E1 to E4
    "selections",  # E5 to E8
    "sca",  # E9
    "traces",  # E10
    "views",  # E11
    "empca",  # E12 to E14
    "sppca",  # E15
    "spinyreg",  # E16
    "structure",  # E17 and E18
    "panels",  # E19 and E20
    "certified",  # E21
    "regression_grid",  # E22
    "trust",  # E23
    "tests_of_variables",  # E24
    "knockoffs",  # E25
    "sparse_factors",  # E26
    "row_sparse",  # E27
    "studies",  # E28
    "small_tables",  # E30
    "table_checks",  # E34
)


class UnknownExperimentError(KeyError):
    """No experiment has the requested name."""

    def __str__(self) -> str:
        return str(self.args[0])


def experiments() -> dict[str, Experiment]:
    """Return all experiments by name, in order."""
    found: dict[str, Experiment] = {}
    for module in MODULES:
        for experiment in import_module(f"{__package__}.{module}").EXPERIMENTS:
            found[experiment.name] = experiment
    return found


def experiment(name: str) -> Experiment:
    """Return one experiment by name, in upper or lower case."""
    known = experiments()
    if name.upper() not in known:
        names = "; ".join(f"{e.name} ({e.title})" for e in known.values())
        raise UnknownExperimentError(f"Unknown experiment {name!r}. Available: {names}.")
    return known[name.upper()]
