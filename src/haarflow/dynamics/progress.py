"""How a long computation says how far it is: `tell(fraction)`, or `tell(fraction, words)`, to whoever listens.

This is the one protocol. A flow tells the function that its caller gave it, or a bar of its own on a terminal. A part
of an experiment calls `tell` of this module, and its worker process chooses with `listen` who hears it.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Tell = Callable[[float], None]  # whoever hears fractions; `tell` is one
Listener = Callable[[float, str], None]  # whoever hears fractions and words

COMPILING = "compiling…"
PAUSE = 0.1  # seconds between two messages of one process with the same words

_listener: Listener | None = None
_last = (0.0, 0.0, "")  # when something was told, the fraction and the words


def tell(fraction: Any, text: str = "") -> None:
    """Say what fraction of the work is done, from 0 to 1, and what is being done; silent when nobody listens.

    It is cheap enough for every turn of a loop: messages that follow each other within a tenth of a second with the
    same words are dropped, except the last one, at 1.
    """
    global _last
    if _listener is None:
        return
    now, (then, _, words) = time.monotonic(), _last
    if now - then >= PAUSE or fraction >= 1 or text != words:
        fraction = min(max(float(fraction), 0.0), 1.0)
        _last = now, fraction, text
        _listener(fraction, text)


def say(text: str) -> None:
    """Say what is being done, at the fraction that was told last."""
    tell(_last[1], text)


def listen(listener: Listener | None) -> None:
    """Choose who hears `tell` and `say` in this process; None: nobody."""
    global _listener, _last
    _listener, _last = listener, (0.0, 0.0, "")


@contextmanager
def watching(progress: bool | Tell | None, name: str = "flow") -> Iterator[Tell]:
    """A function to tell the fraction done to: the caller's own, the first process's bar on its terminal, or nobody.

    The bar is called by the `name` of the work.
    """
    import jax

    if callable(progress):
        yield progress
    elif jax.process_index() == 0 and (progress or (progress is None and sys.stderr.isatty())):
        with _bar(name) as tell:
            yield tell
    else:
        yield lambda fraction: None


@contextmanager
def _bar(name: str) -> Iterator[Tell]:
    """A bar that says `compiling…` until it is told the first fraction, and is gone when the work is done."""
    with bars(transient=True) as bar:
        task = bar.add_task(name, total=1.0, text=COMPILING)
        yield lambda fraction: bar.update(task, completed=fraction, text="")


def bars(**options: Any) -> Any:
    """Bars of the rich library on standard error, one for each task; a task has a field `text` for words of its own."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(bar_width=30), TextColumn("{task.percentage:>3.0f}%")
    clocks = TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("[dim]{task.fields[text]}")
    return Progress(*columns, *clocks, console=Console(stderr=True), **options)
