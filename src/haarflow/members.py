"""Every member of a kind, found by itself: the tests, the docs and the menus ask here."""

import importlib
import inspect
import pkgutil


def members(kind: type) -> list:
    """The `examples()` of every concrete subclass of `kind` that the library ships."""
    import haarflow

    for module in pkgutil.walk_packages(haarflow.__path__, "haarflow."):
        if module.name.split(".")[1] in {"algebra", "measures", "models", "learning", "dynamics"}:
            importlib.import_module(module.name)
    return [example for cls in concrete(kind) for example in cls.examples()]


def concrete(kind: type) -> list[type]:
    """The concrete subclasses of `kind` defined in the library, by name."""
    found, todo = set(), [kind]
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        if not inspect.isabstract(cls) and cls.__module__.startswith("haarflow.") and hasattr(cls, "examples"):
            found.add(cls)
    return sorted(found, key=lambda cls: cls.__qualname__)
