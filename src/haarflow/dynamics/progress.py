"""How a long loop says how far it is."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import jax

Tell = Callable[[float], None]


@contextmanager
def watching(progress: bool | Tell | None) -> Iterator[Tell]:
    """A function to tell the fraction done to: the caller's own, the first process's bar on its terminal, or nobody."""
    if callable(progress):
        yield progress
    elif jax.process_index() == 0 and (progress or (progress is None and sys.stderr.isatty())):
        with _bar() as tell:
            yield tell
    else:
        yield lambda fraction: None


@contextmanager
def _bar() -> Iterator[Tell]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = TextColumn("flow"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("flow", total=1.0)
        yield lambda fraction: bar.update(task, completed=fraction)
