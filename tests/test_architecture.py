"""The rules of the house: who imports whom, who asks what a table is, who serves whom."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import prosparse

SOURCE = Path(prosparse.__file__).parent
PROJECT = SOURCE.parent.parent

grimp = pytest.importorskip("grimp", reason="import-linter is not installed")


def modules():
    """Every module's path below the package, and its syntax tree."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def test_every_layer_imports_only_what_stands_below_it():
    if not (PROJECT / "pyproject.toml").exists():
        pytest.skip("the contract is in pyproject.toml, which an installed package has not")
    said = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert said.returncode == 0, said.stdout


# Questions of what an array or a table is. `data` answers them; tables/ and anndata/ read files
# and other people's containers, in which sparse matrices are a matter of the format.
QUESTIONS = {"issparse", "is_dask_array", "is_numpy_array", "is_torch_array", "is_cupy_array"}
QUESTIONS |= {"is_jax_array", "is_array_api_obj", "isspmatrix"}
OUTSIDE = ("data/", "tables/", "anndata/")


def test_only_data_asks_what_a_table_is():
    asked = [
        f"{path}: {node.id}"
        for path, tree in modules()
        if not path.startswith(OUTSIDE)
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id in QUESTIONS
    ]
    assert asked == []


def test_no_model_names_a_sparse_matrix_or_a_cluster():
    named = []
    for path, tree in modules():
        if not path.startswith(("models/", "selection/", "numerics/", "inference/")):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{a.name}" for a in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            wrong = [n for n in names if n in ("scipy.sparse", "dask", "torch", "cupy", "jax")]
            named += [f"{path}: {name}" for name in wrong]
    assert named == []


def rooms_that_import(module, graph):
    """The methods and other packages that use a module, as one name each; what uses a
    neighbour that uses it counts as well."""
    rooms = set()
    for user in graph.find_modules_that_directly_import(module):
        parts = user.split(".")[1:] or ["prosparse"]  # the public names
        if user.rpartition(".")[0] == module.rpartition(".")[0]:
            rooms |= rooms_that_import(user, graph)
        rooms.add(".".join(parts[:2]) if parts[0] == "models" else parts[0])
    return rooms


def test_what_is_shared_is_shared():
    """A helper of one method lives with that method. Rules that users call may stay."""
    graph = grimp.build_graph("prosparse", cache_dir=None)
    called_by_users = {f"selection.{m}" for m in ("bounds", "criteria", "noise", "prior", "slope")}
    lonely = {}
    for folder in ("numerics", "selection", "inference"):
        for module in sorted(graph.find_children(f"prosparse.{folder}")):
            name = module.removeprefix("prosparse.")
            users = rooms_that_import(module, graph)
            if len(users) < 2 and name not in called_by_users:
                lonely[name] = users
    assert lonely == {}
