"""The scripts beside the library (benchmarks, docs) import only names that the library still has."""

import ast
import importlib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted([*ROOT.glob("benchmarks/*.py"), *ROOT.glob("docs/*.py"), *ROOT.glob("tests/scripts/*.py")])


def taken(text: str) -> list[tuple[str, str]]:
    """The (module, name) pairs that a script takes from the library, also inside functions."""
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    return [
        (node.module, name.name)
        for node in found
        if (node.module or "").split(".")[0] == "haarflow"
        for name in node.names
    ]


def missing(text: str) -> list[str]:
    """Those pairs that are not there."""
    return [f"{module}.{name}" for module, name in taken(text) if not there(module, name)]


def there(module: str, name: str) -> bool:
    """Whether a module has a name, as its own or as a module below it."""
    home = importlib.import_module(module)
    return hasattr(home, name) or (hasattr(home, "__path__") and find_spec(f"{module}.{name}") is not None)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_script_takes_names_that_exist(script):
    assert missing(script.read_text()) == []


def test_a_name_that_has_moved_is_seen():
    assert missing("def f():\n    from haarflow.runs.raster import still, painted\n") == [
        "haarflow.runs.raster.painted"
    ]
