"""Every experiment by name. A module that adds some is one more line in `MODULES`."""

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
)


class UnknownExperimentError(KeyError):
    """There is no experiment of that name."""

    def __str__(self) -> str:
        return str(self.args[0])


def experiments() -> dict[str, Experiment]:
    """All experiments, E1 first."""
    found: dict[str, Experiment] = {}
    for module in MODULES:
        for experiment in import_module(f"{__package__}.{module}").EXPERIMENTS:
            found[experiment.name] = experiment
    return found


def experiment(name: str) -> Experiment:
    known = experiments()
    if name.upper() not in known:
        listed = "; ".join(f"{e.name} ({e.title})" for e in known.values())
        raise UnknownExperimentError(f"there is no experiment {name!r}; there are {listed}")
    return known[name.upper()]
