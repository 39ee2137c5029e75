"""One protocol of progress: fractions and words, told to whoever listens, and shown while nothing moves."""

import io

import jax
import jax.numpy as jnp
import pytest

from haarflow.dynamics import progress
from haarflow.runs import machine
from haarflow.runs.watchers import Bars, Lines


@pytest.fixture
def heard(monkeypatch):
    """What is told, with a clock that stands still."""
    monkeypatch.setattr(progress.time, "monotonic", lambda: 100.0)
    found = []
    progress.listen(lambda *message: found.append(message))
    yield found
    progress.listen(None)


def test_messages_in_haste_are_dropped_unless_their_words_change_or_the_work_is_done(heard):
    for fraction in (0.1, 0.2, 0.3):
        progress.tell(fraction)
    progress.tell(0.4, "fitting")
    progress.tell(0.5, "fitting")
    progress.tell(7)
    assert heard == [(0.1, ""), (0.4, "fitting"), (1.0, "")]


def test_words_alone_keep_the_fraction(heard):
    progress.tell(0.25)
    progress.say("compiling…")
    progress.say("")
    assert heard == [(0.25, ""), (0.25, "compiling…"), (0.25, "")]


def test_nobody_needs_to_listen():
    progress.tell(0.5, "into the void")
    progress.say("again")


def test_compiling_is_said_while_a_program_is_made(heard):
    with machine.Stopwatch():
        jax.jit(lambda x: jnp.cos(x) * 3.25)(jnp.arange(3.0)).block_until_ready()
    words = [text for _, text in heard]
    assert progress.COMPILING in words
    assert words[-1] == ""


def test_a_bar_shows_the_words_of_its_part():
    watch = Bars(1)
    watch.bars.console.file = io.StringIO()
    watch.begin("coin-mean", 1, 0)
    task = watch.bars.tasks[-1]
    assert task.fields["text"] == "waiting for a worker"
    watch.moved("coin-mean", "all", 0.0, "compiling…")
    assert task.fields["text"] == "compiling…"
    watch.moved("coin-mean", "all", 0.5, "")
    assert (task.fields["text"], task.completed) == ("", 0.5)


def test_lines_stay_lines():
    stream = io.StringIO()
    watch = Lines(stream)
    watch.begin("coin-mean", 2, 1)
    watch.moved("coin-mean", "n=10", 0.0, "compiling…")
    watch.done("coin-mean", "n=10")
    watch.end("coin-mean", "holds")
    assert stream.getvalue().splitlines() == [
        "coin-mean: begins, 2 parts, 1 kept from before",
        "coin-mean: n=10 done, 2 of 2",
        "coin-mean: holds",
    ]
