"""Every member of a kind, found by itself: the tests, the docs and the menus ask here."""

import importlib
import inspect
import pkgutil

OTHERS = {"runs", "experiments", "lab", "cli", "__main__"}  # what runs the library rather than being it


def members(kind: type) -> list:
    """The `examples()` of every concrete subclass of `kind` that the library ships, in an order of their own."""
    import haarflow

    for module in pkgutil.walk_packages(haarflow.__path__, "haarflow."):
        if module.name.split(".")[1] not in OTHERS:
            importlib.import_module(module.name)
    return [example for cls in concrete(kind) for example in cls.examples()]


def concrete(kind: type) -> list[type]:
    """The concrete subclasses of `kind` defined in the library, by name; what else is imported makes no difference."""
    found, todo = set(), [kind]
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        if not inspect.isabstract(cls) and _shipped(cls) and hasattr(cls, "examples"):
            found.add(cls)
    return sorted(found, key=lambda cls: (cls.__qualname__, cls.__module__))


def _shipped(cls: type) -> bool:
    package, _, room = cls.__module__.partition(".")
    return package == "haarflow" and room.partition(".")[0] not in OTHERS
