"""Sameness by value: equal things have one digest, and every change changes it."""

import functools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import haarflow as hf
from haarflow import identity
from haarflow.identity import Function, Unidentified, by_value, digest

SCALE = np.array([1.0, 2.0])


def scaled(x):
    return SCALE * x


def times(factor, *, shift=0.0):
    return lambda x: factor * x + shift


PAIRS = {
    "constants": (lambda x: x + 1, lambda x: x + 2),
    "closures": (times(1.0), times(2.0)),
    "defaults": (times(1.0, shift=0.0), times(1.0, shift=1.0)),
    "arrays in closures": (times(np.arange(3.0)), times(np.arange(3.0) + 1)),
    "partials": (functools.partial(scaled, 1.0), functools.partial(scaled, 2.0)),
    "compiled": (jax.jit(times(1.0)), jax.jit(times(2.0))),
    "learning rates": (optax.adam(1.0), optax.adam(0.5)),
    "momentum": (optax.sgd(1.0, momentum=0.9), optax.sgd(1.0, momentum=0.8)),
    "schedules": (optax.adam(optax.cosine_decay_schedule(1.0, 10)), optax.adam(optax.cosine_decay_schedule(1.0, 20))),
    "groups": tuple(hf.natural_rep(hf.Matrices([np.diag(signs)])) for signs in ([1.0, -1.0], [-1.0, 1.0])),
    "shapes": (jnp.zeros(3), jnp.zeros((3, 1))),
    "types": (jnp.zeros(3), jnp.zeros(3, jnp.float32)),
    "keys": (jax.random.key(0), jax.random.key(1)),
    "order": ((1, 2), (2, 1)),
    "numbers and words": (1, "1"),
    "nesting": ([[1], 2], [1, [2]]),
}


@pytest.mark.parametrize(("one", "other"), [*PAIRS.values()], ids=[*PAIRS])
def test_a_change_of_value_is_seen(one, other):
    assert digest(one) != digest(other)


MADE = [
    lambda: times(1.5),
    lambda: optax.chain(optax.clip(1.0), optax.adam(0.1)),
    lambda: functools.partial(scaled, 2.0),
    lambda: jax.jit(times(3.0)),
    lambda: hf.natural_rep(hf.Matrices([np.diag([1.0, -1.0])])),
    lambda: hf.Risk(hf.Dense(2, 2), hf.Sample(np.eye(2), np.eye(2))),
    lambda: {"a": {3, 1, 2}, "b": jnp.tanh},
]


@pytest.mark.parametrize("make", MADE)
def test_made_again_it_is_the_same(make):
    assert digest(make()) == digest(make())


def test_a_global_that_a_function_uses_belongs_to_it():
    before = digest(scaled)
    SCALE[0] = 7.0
    changed = digest(scaled)
    SCALE[0] = 1.0
    assert before != changed
    assert digest(scaled) == before


def test_words_around_the_code_do_not_count():
    def one(x):
        """One docstring."""
        return 2 * x

    first = digest(one)

    def one(x):
        """Another docstring."""  # and a comment
        return 2 * x

    assert digest(one) == first


def test_another_process_finds_the_same_digest():
    code = (
        "import numpy as np, optax, haarflow as hf; from haarflow.identity import digest;"
        "print(digest((hf.natural_rep(hf.Matrices([np.diag([1.0, -1.0])])), optax.adam(1.0), {'a', 'b', 'c'})))"
    )
    ask = [
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert ask[0] == ask[1]


@pytest.mark.parametrize("thing", [object(), np.random.default_rng(0), iter([1])])
def test_what_has_no_value_is_refused(thing):
    with pytest.raises(Unidentified, match="told apart by value; got a .*, which has none. Write the function so"):
        digest(lambda: thing)


def test_functions_of_one_value_share_a_compiled_program():
    runs = []

    @functools.partial(jax.jit, static_argnums=0)
    def compiled(function, x):
        runs.append(1)
        return function(x)

    assert [float(compiled(by_value(times(2.0)), 1.0)) for _ in range(3)] == [2.0] * 3
    assert float(compiled(by_value(times(3.0)), 1.0)) == 3.0
    assert len(runs) == 2


def test_a_function_that_holds_a_traced_number_equals_itself_alone():
    @jax.jit
    def inside(x):
        one, other = Function(lambda y: x * y), Function(lambda y: x * y)
        assert one == one
        assert one != other
        return one(x)

    assert inside(2.0) == 4.0


def test_a_large_array_is_hashed_once_while_it_lives_and_numpy_every_time(monkeypatch):
    counts = []
    monkeypatch.setattr(identity, "_bytes", lambda content: counts.append(content.nbytes) or content.tobytes())
    numbers = np.arange(2.0**18)
    sample = hf.Sample(numbers[:, None], np.ones(2**18))
    known = digest(sample)
    first = sum(counts)
    assert first >= 2 * numbers.nbytes
    assert digest(hf.Risk(hf.Dense(1, 1), sample)) != known
    assert digest(sample) == known
    assert sum(counts) < first + 1000
    assert digest(hf.Sample(jnp.asarray(numbers[:, None]), np.ones(2**18))) == known
    before = digest(numbers)
    numbers[7] = -1
    assert digest(numbers) != before
    del sample
    assert len(identity._digests) <= 2
