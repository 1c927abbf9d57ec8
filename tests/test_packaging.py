"""What pyproject.toml promises is what the project tests."""

import re
import tomllib
from importlib.metadata import version

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import prosparse
from pages import ROOT

pytestmark = pytest.mark.quick

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OLDEST = ROOT / ".ci" / "oldest.txt"
SUPPORTED = ["3.11", "3.12", "3.13", "3.14"]
# Extras of users, who may have old versions.
EXTRAS = ["plot", "cli", "excel", "serve", "dask", "anndata"]


def lower_bounds():
    """The oldest version of every package that the project promises to work with."""
    extras = PROJECT["optional-dependencies"]
    texts = PROJECT["dependencies"] + [text for name in EXTRAS for text in extras[name]]
    found = {}
    for wanted in map(Requirement, texts):
        if wanted.name == PROJECT["name"]:  # an extra that contains another one
            continue
        (bound,) = wanted.specifier
        assert bound.operator == ">=", f"{wanted}: say only which version is the oldest"
        found[wanted.name] = Version(bound.version)
    return found


def pins():
    if not OLDEST.is_file():
        pytest.skip("this copy of the project has no folder .ci")
    lines = (line.partition("#")[0] for line in OLDEST.read_text(encoding="utf-8").splitlines())
    wanted = [Requirement(line) for line in lines if line.strip()]
    return {one.name: Version(next(iter(one.specifier)).version) for one in wanted}


def test_the_oldest_versions_that_are_tested_are_the_ones_that_are_promised():
    tested = pins()
    for name, bound in lower_bounds().items():
        assert tested[name] == bound, f"{name}: {bound} in pyproject.toml, {tested[name]} tested"


@pytest.mark.parametrize("name", [Requirement(text).name for text in PROJECT["dependencies"]])
def test_what_is_installed_is_new_enough(name):
    assert Version(version(name)) >= lower_bounds()[name]


def test_every_supported_python_is_named_and_tested():
    assert Version(PROJECT["requires-python"].removeprefix(">=")) == Version(SUPPORTED[0])
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert named == SUPPORTED
    workflow = ROOT / ".github" / "workflows" / "tests.yml"
    if not workflow.is_file():
        pytest.skip("this copy of the project has no folder .github")
    matrix = re.search(r"python-version: \[(.*)\]", workflow.read_text(encoding="utf-8"))
    assert re.findall(r"3\.\d+", matrix[1]) == SUPPORTED


# --- the recipe for conda

# Packages that conda-forge splits or names otherwise.
CONDA_NAMES = {"matplotlib": "matplotlib-base"}


def recipe():
    """recipe/meta.yaml as conda-build reads it."""
    jinja2, yaml = pytest.importorskip("jinja2"), pytest.importorskip("yaml")
    text = (ROOT / "recipe" / "meta.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(jinja2.Template(text).render(PYTHON="python"))


def as_conda(texts):
    """Requirements of pyproject.toml as conda writes them; it knows no extras of packages."""
    wanted = [one for one in map(Requirement, texts) if one.name != PROJECT["name"]]
    return {f"{CONDA_NAMES.get(one.name, one.name)} {one.specifier}" for one in wanted}


def test_the_recipe_asks_for_what_the_project_asks_for():
    found = recipe()
    python = f"python {PROJECT['requires-python']}"
    assert set(found["requirements"]["run"]) == {python} | as_conda(PROJECT["dependencies"])
    extras = [text for name in EXTRAS for text in PROJECT["optional-dependencies"][name]]
    assert set(found["requirements"]["run_constrained"]) == as_conda(extras)
    backend = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
    assert set(found["requirements"]["host"]) == {python, "pip"} | as_conda(backend["requires"])


def test_the_recipe_is_of_this_version():
    found = recipe()
    assert str(found["package"]["version"]) == prosparse.__version__
    assert found["package"]["name"] == PROJECT["name"]
    assert found["about"]["license"] == PROJECT["license"]
    assert found["about"]["summary"] == PROJECT["description"]
    (command,) = found["build"]["entry_points"]
    assert command == f"prosparse = {PROJECT['scripts']['prosparse']}"


def test_who_cites_the_project_cites_this_version():
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", cited, re.MULTILINE)[1] == prosparse.__version__
