"""The table of contents: every public name, its address and the module that defines it, read without importing any.

The names on top are listed in `__init__.pyi`, those of a topic in its own file, such as `distances.py`.
"""

import ast
import difflib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@cache
def top() -> dict[str, str]:
    """The names on top and the module each comes from; a topic comes from itself."""
    stub = _imported(HERE / "__init__.pyi")
    return {name: f"haarflow.{name}" if module == "haarflow" else module for name, module in stub.items()}


def topics() -> list[str]:
    """The modules that hold the names of one topic each."""
    return [name for name, module in top().items() if module == f"haarflow.{name}"]


@cache
def addresses() -> dict[str, str]:
    """Every public name of which something can be called or made: `distances.w2` and its module."""
    found = {name: module for name, module in top().items() if name not in topics()}
    for topic in topics():
        path = HERE / f"{topic}.py"
        page = _imported(path if path.exists() else HERE / topic / "__init__.py")
        found |= {f"{topic}.{name}": module for name, module in page.items()}
    return found


def public() -> dict[str, Any]:
    """Every public function and class by its address; all that the library has is then imported."""
    return {
        address: getattr(import_module(module), address.rpartition(".")[2]) for address, module in addresses().items()
    }


def nearest(name: str) -> str:
    """The end of the sentence about a name that is not there: the nearest ones that are."""
    plain = {address.rpartition(".")[2].lower(): address for address in reversed(addresses())}
    plain |= {topic.lower(): topic for topic in topics()}
    close = [plain[word] for word in difflib.get_close_matches(name.lower(), plain, n=2)]
    return f"did you mean {' or '.join(close)}?" if close else "dir(haarflow) lists what it has."


def _imported(path: Path) -> dict[str, str]:
    """The names that a file imports for others, by `from module import name as name`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names if alias.asname == alias.name}
