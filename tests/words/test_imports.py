"""Imports point up the list of rooms only, heavy libraries wait, and nothing unsafe is imported at all."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

import haarflow
from haarflow.contents import addresses, public, topics

SOURCE = Path(__file__).parents[2] / "src" / "haarflow"
ROOMS = [
    "algebra",
    "measures",
    "fast",
    "models",
    "learning",
    "dynamics",
    "practice",
    "runs",
    "experiments",
    "lab",
    "cli",
]
EVERYWHERE = {
    "__version__",
    "annotations",
    "contents",
    "doors",
    "errors",
    "files",
    "identity",
    "members",
    "saving",
    "values",
}
LAZY = {"ot", "sklearn", "diffrax", "sympy", "optax", "matplotlib", "rich", "jinja2", "dask", "distributed", "torch"}
ESTIMATORS = {
    "estimator_kit.py",
    "flowing.py",
    "kernel_estimators.py",
    "margin_estimators.py",
    "mean_field.py",
    "set_estimators.py",
    "symmetrised.py",
}
"""Classes made of scikit-learn's own, which they import at the top; only the topic `estimators` imports them there."""
BANNED = {"pickle", "yaml", "dill", "urllib", "requests", "socket"}


@functools.cache
def parsed(path):
    return ast.parse(path.read_text())


def imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "haarflow":
            yield from ((node, f"haarflow.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node, f"{'.' * node.level}{node.module or ''}"


def test_imports_point_up_the_list_of_rooms():
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for _, name in imports(parsed(path)):
            parts = name.split(".")
            assert parts[0], f"{path.name} imports {name}: write the whole name"
            if parts[0] != "haarflow" or room not in ROOMS or (parts[1:] and parts[1] in EVERYWHERE):
                continue
            if len(parts) == 1 or parts[1] not in ROOMS:  # the public names, which are made of all rooms of a library
                assert room in ("lab", "cli"), f"{path.name} in {room} imports {name}"
                continue
            assert ROOMS.index(parts[1]) <= ROOMS.index(room), f"{path.name} in {room} imports {name}"


def test_a_module_is_known_by_its_name():
    """In a traceback or a tab: one name, one module, beside the topics, and the experiments, which have their own."""
    names = [
        path.stem
        for path in SOURCE.rglob("*.py")
        if path.stem not in ("__init__", *topics()) and path.parent.name != "experiments"
    ]
    assert sorted(set(names)) == sorted(names)


def test_heavy_libraries_are_imported_where_they_are_used():
    for path in SOURCE.rglob("*.py"):
        tree = parsed(path)
        for node, name in imports(tree):
            top = name.split(".")[0]
            assert top not in BANNED, f"{path.name} imports {name}"
            if node in tree.body:
                own = path.name in ESTIMATORS and top == "sklearn"
                assert top not in LAZY or own, f"{path.name} imports {name} at the top"


def test_the_estimators_are_imported_on_demand():
    theirs = {f"haarflow.practice.{name.removesuffix('.py')}" for name in ESTIMATORS}
    for path in SOURCE.rglob("*.py"):
        tree = parsed(path)
        for node, name in imports(tree):
            if node in tree.body and path.name not in ESTIMATORS | {"estimators.py"}:
                assert name not in theirs | {"haarflow.estimators"}, f"{path.name} imports {name} at the top"


def test_the_command_line_starts_without_jax():
    code = "import sys, haarflow.cli; print(sorted({'jax', 'matplotlib', 'scipy', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_loads_and_is_found_once():
    for name in dir(haarflow):
        assert getattr(haarflow, name).__name__ == (f"haarflow.{name}" if name in topics() else name)
        assert vars(haarflow)[name] is getattr(haarflow, name)
    plain = [address.rpartition(".")[2] for address in addresses()]
    assert len(set(plain)) == len(plain), "a public name has one address"
    assert [thing.__name__ for thing in public().values()] == plain
    assert not [name for name in plain if (SOURCE / f"{name}.py").exists() or (SOURCE / name).exists()]


def test_names_wait_until_they_are_asked_for_and_a_star_gives_those_of_the_stub():
    code = """
import sys, haarflow
print(*[name for name in vars(haarflow) if name[0] != '_'])
print(haarflow.Trajectory.__module__)
import haarflow.practice, haarflow.cli
haarflow.decide
print('sklearn' in sys.modules)
del haarflow, sys
before = set(globals()) | {'before'}
from haarflow import *
print(*sorted(set(globals()) - before))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    bare, home, known, star = done.stdout.splitlines()
    assert bare == ""
    assert home.startswith("haarflow.dynamics.")
    assert known == "False", "scikit-learn is imported where it is used"
    assert star.split() == dir(haarflow)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Cyclik", "haarflow has no Cyclik; did you mean Cyclic?"),
        ("wi_distanse", "haarflow has no wi_distanse; did you mean distances.wi_distance or distances.si_distance?"),
        ("qqqq", "haarflow has no qqqq; dir(haarflow) lists what it has."),
    ],
)
def test_a_misspelt_name_is_answered_by_the_nearest(name, sentence):
    with pytest.raises(AttributeError) as refused:
        getattr(haarflow, name)
    assert str(refused.value) == sentence
    assert len(sentence) < 100


@pytest.mark.slow
def test_members_do_not_depend_on_what_was_imported_before():
    code = """
import jax
from haarflow.members import concrete, members
from haarflow.dynamics.fields import Field
{}
jax.config.update("jax_enable_x64", True)
examples = members(Field)
print(*[f"{{kind.__module__}}.{{kind.__name__}}" for kind in concrete(Field)], len(examples))
"""
    alone = fresh(code.format(""))
    assert "haarflow.practice.escape.HeldOnSubspace" in alone
    crowded = "import haarflow.practice.escape, haarflow.experiments.reduced\nclass Own(Field): __module__ = 'own'"
    assert fresh(code.format(crowded)) == alone
