"""Imports point up the list of rooms only, heavy libraries wait, and nothing unsafe is imported at all."""

import ast
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "haarflow"
ROOMS = [
    "algebra",
    "measures",
    "models",
    "learning",
    "dynamics",
    "practice",
    "runs",
    "experiments",
    "lab",
    "cli",
]
EVERYWHERE = {"errors", "files", "members", "settling"}
LAZY = {"ot", "sklearn", "diffrax", "sympy", "optax", "matplotlib", "rich", "dask", "distributed", "torch"}
BANNED = {"pickle", "yaml", "dill", "urllib", "requests", "socket"}


def imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node, node.module or ""


def test_imports_point_up_the_list_of_rooms():
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for _, name in imports(ast.parse(path.read_text())):
            parts = name.split(".")
            if parts[0] != "haarflow" or len(parts) < 2 or room not in ROOMS or parts[1] in EVERYWHERE:
                continue
            assert ROOMS.index(parts[1]) <= ROOMS.index(room), f"{path.name} in {room} imports {name}"


def test_heavy_libraries_are_imported_where_they_are_used():
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        for node, name in imports(tree):
            top = name.split(".")[0]
            assert top not in BANNED, f"{path.name} imports {name}"
            if node in tree.body:
                assert top not in LAZY, f"{path.name} imports {name} at the top"


def test_the_command_line_starts_without_jax():
    code = "import sys, haarflow.cli; print(sorted({'jax', 'matplotlib', 'scipy', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
