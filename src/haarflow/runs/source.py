"""The code of an experiment, as its files state it: what computes its data, and what judges them.

It is taken from the text of the experiment's file and of the files of your own that it imports, not from what was
loaded: numbers that are made on import differ between processes of different precision and between machines, the text
does not. Comments, docstrings and formatting are no part of it. A name counts as used wherever it is written, so that
too much rather than too little belongs to the code.
"""

import ast
import importlib.util
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

COMPUTES = ("design", "run")
JUDGES = ("fits", "claims", "numbers")
PICTURES = ("panel", "film")  # methods so marked: no record depends on them either
APART = {"tour", "quick", "full", "panels"}  # sizes and pictures: no record depends on how they are written
HOUSE = Path(__file__).resolve().parents[1]
INSTALLED = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")}


class Source(NamedTuple):
    """Two digests: of what makes the data, and of what judges them."""

    computes: str
    judges: str


@cache
def source(kind: type) -> Source:
    """The code of an Experiment class, as its files were when this was first asked."""
    module = sys.modules.get(kind.__module__)
    path = getattr(module, "__file__", None)
    if path is None or not Path(path).is_file():
        return Source("", "")
    trees = [_tree(file) for file in files(Path(path))]
    body = next((node for node in trees[0].body if isinstance(node, ast.ClassDef) and node.name == kind.__name__), None)
    members = {} if body is None else _members(body)
    known = _defined([node for tree in trees for node in tree.body if node is not body])
    bases = [] if body is None else [*body.bases, *body.decorator_list]
    return Source(
        *(_digest(_reached([*_wanted(members, names), *bases], members, known)) for names in (COMPUTES, JUDGES))
    )


def files(path: Path) -> list[Path]:
    """The file and, after it, every file of your own that it imports, directly or not."""
    found, todo = [path.resolve()], [path.resolve()]
    while todo:
        for other in _imported(todo.pop()):
            if other not in found:
                found.append(other)
                todo.append(other)
    return found


def _imported(path: Path) -> Iterator[Path]:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            names = [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names = [(node.level, base), *((node.level, f"{base}.{alias.name}".strip(".")) for alias in node.names)]
        else:
            continue
        for level, name in names:
            file = _file(path.parents[level - 1], name) if level else _absolute(name)
            if file is not None and _own(file):
                yield file


def _absolute(name: str) -> Path | None:
    """The file of a module, found without importing anything."""
    top, _, rest = name.partition(".")
    try:
        spec = importlib.util.find_spec(top) if top else None
    except (ImportError, ValueError, AttributeError):
        return None
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if spec and not folders and not rest and spec.origin and spec.origin.endswith(".py"):
        return Path(spec.origin).resolve()
    return _file(Path(folders[0]), rest) if folders else None


def _file(folder: Path, name: str) -> Path | None:
    place = folder.joinpath(*name.split(".")) if name else folder
    choices = (place.with_name(f"{place.name}.py"), place / "__init__.py")
    return next((choice.resolve() for choice in choices if choice.is_file()), None)


def _own(path: Path) -> bool:
    """Whether a file is somebody's own, or an experiment's: not of Python, of an installed library or of haarflow."""
    if path.is_relative_to(HOUSE):
        return path.parent == HOUSE / "experiments"
    installed = {"site-packages", "dist-packages"} & set(path.parts)
    return not installed and not any(path.is_relative_to(folder) for folder in INSTALLED)


@cache
def _parsed(path: Path, changed: int) -> ast.Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [part for part in node.body if not _is_text(part)] or [ast.Pass()]
    return tree


def _tree(path: Path) -> ast.Module:
    """A file without its comments and docstrings."""
    return _parsed(path, path.stat().st_mtime_ns)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _members(body: ast.ClassDef) -> dict[str, list[ast.AST]]:
    """The methods and constants of the class by name; its settings are told by the config."""
    return _defined([node for node in body.body if not _is_setting(node) and not _is_picture(node)])


def _is_setting(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation)


def _is_picture(node: ast.stmt) -> bool:
    marks = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return any(isinstance(mark, ast.Call) and _last(mark.func) in PICTURES for mark in marks)


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _wanted(members: dict[str, list[ast.AST]], names: Iterable[str]) -> list[ast.AST]:
    return [node for name in names for node in members.get(name, [])] + members.get("", [])


def _defined(nodes: Iterable[ast.stmt]) -> dict[str, list[ast.AST]]:
    """Statements by the names they bind; under "" those that bind none and act all the same."""
    found: dict[str, list[ast.AST]] = {}
    for node in nodes:
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            continue
        for one in _one_by_one(node):
            for name in _bound(one) or {""}:
                found.setdefault(name, []).append(one)
    return found


def _one_by_one(node: ast.stmt) -> list[ast.stmt]:
    """An import of several names as several imports: one that is added changes nothing for the others."""
    if isinstance(node, ast.Import):
        return [ast.Import([alias]) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [ast.ImportFrom(node.module, [alias], node.level) for alias in node.names]
    return [node]


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    found = set()
    for part in ast.walk(node):
        if isinstance(part, ast.alias):
            found.add((part.asname or part.name).partition(".")[0])
        elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(part.name)
        elif isinstance(part, ast.Name | ast.Attribute | ast.Subscript) and not isinstance(part.ctx, ast.Load):
            found.add(_root(part))
    return found


def _root(node: Any) -> str:
    while not isinstance(node, ast.Name):
        node = getattr(node, "value", None) or getattr(node, "func", None)
        if node is None:
            return ""
    return node.id


def _reached(nodes: list[ast.AST], members: dict[str, list[ast.AST]], known: dict[str, list[ast.AST]]) -> list[ast.AST]:
    """These statements and all that they name, directly or not."""
    found: dict[int, ast.AST] = {}
    todo, named = [*nodes, *known.get("", [])], set()
    while todo:
        node = todo.pop()
        if id(node) in found:
            continue
        found[id(node)] = node
        written, own = _names(node)
        todo += [part for name in written - named for part in known.get(name, [])]
        todo += [part for name in own - named for part in members.get(name, [])]
        named |= written & own
    return list(found.values())


def _names(node: ast.AST) -> tuple[set[str], set[str]]:
    """Every name that a statement writes, and those that may be the experiment's own methods.

    Words in strings are among them: `getattr(self, "width")` uses width. `np.full` is not the method `full`.
    """
    written, own = set(), set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            written.add(part.id)
        elif isinstance(part, ast.Attribute):
            written.add(part.attr)
            own |= {part.attr} if part.attr not in APART or _root(part) in ("self", "cls") else set()
        elif isinstance(part, ast.alias):
            written |= set(part.name.split("."))
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            own |= set(re.findall(r"\w+", part.value)) - APART
    return (written | own) - {""}, (own | written - APART) - {""}


def _digest(nodes: list[ast.AST]) -> str:
    from haarflow.runs.ledger import sha256

    return sha256("\n".join(sorted(ast.unparse(node) for node in nodes)).encode())[:16]
