"""haarflow: learning with symmetry, seen through the mean-field limit.

Names are listed in `__init__.pyi` and loaded on first use, so that importing the package costs nothing.
"""

__version__ = "0.1.0"

_rooms: dict[str, str] = {}  # where each public name lives


def _names() -> dict[str, str]:
    """The rooms of the public names, read once from the stub that type checkers read."""
    if not _rooms:
        import ast
        from pathlib import Path

        stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
        imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
        _rooms.update({alias.name: str(node.module) for node in imports for alias in node.names})
    return _rooms


def __getattr__(name: str):
    """A public name, found on first use and kept; `__all__` is all of them."""
    if name == "__all__":
        return sorted(_names())
    if name not in _names():
        raise AttributeError(f"haarflow has no {name}; {_nearest(name)}", name=name)
    from importlib import import_module

    globals()[name] = value = getattr(import_module(_names()[name]), name)
    return value


def _nearest(name: str) -> str:
    """The end of the sentence about a name that is not here."""
    import difflib

    plain = {known.lower(): known for known in _names()}
    close = [plain[word] for word in difflib.get_close_matches(name.lower(), plain, n=3)]
    return f"did you mean {' or '.join(close)}?" if close else "dir(haarflow) lists what it has."


def __dir__() -> list[str]:
    return sorted(_names())
