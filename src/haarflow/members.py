"""Every member of a kind, found by itself: the laws, the docs and the menus ask here."""

import importlib
import inspect
import pkgutil

OTHERS = {"runs", "experiments", "lab", "cli", "__main__"}  # what runs the library rather than being it


def members(kind: type, *, shipped: bool = True) -> list:
    """The `examples()` of every concrete subclass of `kind`, in an order of their own.

    Those that the library ships, so that what else is imported makes no difference; with `shipped=False` those of users
    as well, from whatever file they were imported.
    """
    import haarflow

    for module in pkgutil.walk_packages(haarflow.__path__, "haarflow."):
        if module.name.split(".")[1] not in OTHERS:
            importlib.import_module(module.name)
    return [example for cls in concrete(kind, shipped=shipped) for example in cls.examples()]


def concrete(kind: type, *, shipped: bool = True) -> list[type]:
    """The concrete subclasses of `kind` that are imported, by name; with `shipped=False` those of users as well."""
    found, todo = {}, [kind]
    while todo:
        cls = todo.pop(0)
        todo += cls.__subclasses__()
        if not inspect.isabstract(cls) and hasattr(cls, "examples") and (_shipped(cls) or not shipped):
            found[cls.__qualname__, cls.__module__] = cls  # of a file that was imported again, what it says now
    return [found[name] for name in sorted(found)]


def defined_in(module: str, kinds: tuple[type, ...]) -> list[type]:
    """The concrete classes of some kinds that one module defines, by name."""
    found = {cls for kind in kinds for cls in concrete(kind, shipped=False) if cls.__module__ == module}
    return sorted(found, key=lambda cls: cls.__qualname__)


def _shipped(cls: type) -> bool:
    package, _, room = cls.__module__.partition(".")
    return package == "haarflow" and room.partition(".")[0] not in OTHERS
