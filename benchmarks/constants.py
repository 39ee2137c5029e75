"""The constants of `fast/tuning.py` that choose between two forms, each form beside the other: python constants.py.

Time is that of the processor on one core, the least of some rounds in which all forms take turns, so that a busy
machine moves ratios little. Every line is a case: what varies, and the time of each form over that of the first.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator
from unittest import mock

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import jax.numpy as jnp
import numpy as np

from haarflow.fast import blocks, tuning
from haarflow.models.units import Dense, Perceptron

NEVER, ALWAYS = 0, 2**62
Form = Callable[[], object]


def descent(unit, n: int, samples: int, *, steps: int, **constants: int) -> Form:
    """Steps of gradient descent of n particles, compiled with these constants; they lie last where rows are short."""
    draw = np.random.default_rng(0)
    xs, ys = (jnp.asarray(draw.normal(size=(samples, size)), jnp.float32) for size in (unit.inputs, unit.outputs))
    start, weights = jnp.asarray(draw.normal(size=(n, unit.dim)), jnp.float32), jnp.full(n, 1 / n, jnp.float32)
    last = unit.dim < tuning.SHORT_ROW

    def step(_, state):
        atoms = state.T if last else state
        _, gradient = blocks.pullback(unit, weights, atoms, xs, lambda f: (f - ys) / samples)
        return state - 0.01 * (gradient.T if last else gradient)

    return compiled(lambda state: jax.lax.fori_loop(0, steps, step, state), start.T if last else start, constants)


def summed(unit, n: int, samples: int, **constants: int) -> Form:
    """The network of n particles at some inputs, compiled with these constants."""
    draw = np.random.default_rng(0)
    xs = jnp.asarray(draw.normal(size=(samples, unit.inputs)), jnp.float32)
    thetas, weights = jnp.asarray(draw.normal(size=(n, unit.dim)), jnp.float32), jnp.full(n, 1 / n, jnp.float32)
    return compiled(lambda atoms: blocks.weighted_sum(unit, weights, atoms, xs), thetas, constants)


def compiled(function: Callable, start: jax.Array, constants: dict[str, int]) -> Form:
    """The function of its start as a program that has these constants built in."""
    with mock.patch.multiple(tuning, **constants):
        program = jax.jit(function).lower(start).compile()
    return lambda: jax.block_until_ready(program(start))


def few_inputs() -> Iterator[tuple[str, dict[str, Form]]]:
    """Sums written out against a product, by inputs: 5000 particles, 20 samples, two outputs."""
    for d in (2, 4, 8, 16):
        unit = Dense(d, 2, "tanh")
        yield (
            f"{d} inputs",
            {
                "sums": descent(unit, 5000, 20, steps=40, FEW_INPUTS=ALWAYS),
                "product": descent(unit, 5000, 20, steps=40, FEW_INPUTS=NEVER),
            },
        )


def unrolled_samples() -> Iterator[tuple[str, dict[str, Form]]]:
    """Gradients sample by sample against one contraction, by samples: 20 000 particles in R^4."""
    for samples in (16, 64, 128):
        yield (
            f"{samples} samples",
            {
                "sample by sample": descent(Dense(2, 2, "tanh"), 20_000, samples, steps=10, UNROLLED_SAMPLES=ALWAYS),
                "at once": descent(Dense(2, 2, "tanh"), 20_000, samples, steps=10, UNROLLED_SAMPLES=NEVER),
            },
        )


def cached_particles() -> Iterator[tuple[str, dict[str, Form]]]:
    """The same, by particles: 20 samples."""
    for n in (500, 2000, 4000, 8000, 32_000):
        steps = max(4, 200_000 // n)
        yield (
            f"{n} particles",
            {
                "sample by sample": descent(Dense(2, 2, "tanh"), n, 20, steps=steps, CACHED_PARTICLES=NEVER),
                "at once": descent(Dense(2, 2, "tanh"), n, 20, steps=steps, CACHED_PARTICLES=ALWAYS),
            },
        )


def bytes_summed() -> Iterator[tuple[str, dict[str, Form]]]:
    """Bytes of evaluations in a block of a sum: 200 000 particles in R^66, 100 samples, 80 MB of evaluations."""
    forms = {
        f"2^{power}": summed(Perceptron(64, 1, "tanh"), 200_000, 100, SUMMED=2**power) for power in (23, 19, 21, 25, 28)
    }
    yield "bytes of a block", forms


def short_block() -> Iterator[tuple[str, dict[str, Form]]]:
    """A block's atoms put down before they are used, or read from the cloud, by coordinates: blocks of 8 MB."""
    for d in (1, 2, 7, 16):
        unit, sizes = Dense(d, 2, "tanh"), {"AT_ONCE": 2**23}
        yield (
            f"{unit.dim} coordinates",
            {
                "put down": descent(unit, 192_000, 20, steps=2, SHORT_BLOCK=ALWAYS, **sizes),
                "read": descent(unit, 192_000, 20, steps=2, SHORT_BLOCK=NEVER, **sizes),
            },
        )


CASES = {
    "FEW_INPUTS": few_inputs,
    "UNROLLED_SAMPLES": unrolled_samples,
    "CACHED_PARTICLES": cached_particles,
    "SUMMED": bytes_summed,
    "SHORT_BLOCK": short_block,
}


def turns(forms: dict[str, Form], rounds: int) -> dict[str, float]:
    """The least processor time of each form, all of them in every round."""
    least = dict.fromkeys(forms, np.inf)
    for form in forms.values():
        form()
    for _ in range(rounds):
        for name, form in forms.items():
            begin = time.process_time()
            form()
            least[name] = min(least[name], time.process_time() - begin)
    return least


def main() -> None:
    """Print a line for each case of the constants asked for."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES))
    options.add_argument("--rounds", type=int, default=9)
    asked = options.parse_args()
    for constant in asked.only:
        print(f"{constant}: {(CASES[constant].__doc__ or '').splitlines()[0]}")
        for case, forms in CASES[constant]():
            least = turns(forms, asked.rounds)
            first = next(iter(least.values()))
            words = ", ".join(f"{name} {seconds / first:.2f}" for name, seconds in least.items())
            print(f"  {case}: {words}  ({1e3 * first:.1f} ms)", flush=True)


if __name__ == "__main__":
    main()
