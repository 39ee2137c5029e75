"""haarflow: learning with symmetry, seen through the mean-field limit.

Names are listed in `__init__.pyi` and loaded on first use, so that importing the package costs nothing; the topics
(`haarflow.distances`, `haarflow.exact`, ...) are modules of their own.
"""

__version__ = "0.1.0"


def __getattr__(name: str):
    """A public name, found on first use and kept; `__all__` is all of them."""
    from importlib import import_module

    from haarflow.contents import nearest, top

    if name == "__all__":
        return sorted(top())
    if name not in top():
        raise AttributeError(f"haarflow has no {name}; {nearest(name)}", name=name)
    module = import_module(top()[name])
    globals()[name] = value = module if top()[name] == f"haarflow.{name}" else getattr(module, name)
    return value


def __dir__() -> list[str]:
    from haarflow.contents import top

    return sorted(top())
