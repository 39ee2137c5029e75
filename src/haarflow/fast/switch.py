"""One switch between the fast forms and the plain ones.

The fast forms use what a compiler happens to do well, and parts of JAX that may change. With `HAARFLOW_PLAIN=1` in the
environment, or inside `with plain():`, everything runs by the formulas and by public JAX alone, to the same numbers up
to rounding: so that a new JAX cannot stop the library, and a doubt about a fast form is settled in one run.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import jax

_plain = [os.environ.get("HAARFLOW_PLAIN", "") not in ("", "0")]


def fast() -> bool:
    """Whether the fast forms run; asked while a program is compiled."""
    return not _plain[-1]


@contextmanager
def plain() -> Iterator[None]:
    """Run the plain forms inside; what was compiled before and after is compiled again."""
    _plain.append(True)
    jax.clear_caches()
    try:
        yield
    finally:
        _plain.pop()
        jax.clear_caches()
