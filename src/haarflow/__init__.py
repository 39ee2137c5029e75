"""haarflow: learning with symmetry, seen through the mean-field limit.

Names are listed in `__init__.pyi` and loaded on first use, so that importing the package costs nothing.
"""

import ast
import importlib
from functools import cache
from pathlib import Path

__version__ = "0.1.0"


@cache
def _rooms() -> dict[str, str]:
    """Where each public name lives, read from the stub that type checkers read."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def __getattr__(name: str):
    if name not in _rooms():
        raise AttributeError(f"haarflow has no {name}; it has {', '.join(sorted(_rooms()))}.")
    return getattr(importlib.import_module(_rooms()[name]), name)


def __dir__() -> list[str]:
    return sorted(_rooms())
