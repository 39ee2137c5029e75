"""Random streams have names: what is drawn for one purpose meets nothing drawn for another."""

import jax
import numpy as np
import pytest

from haarflow.algebra.groups import PlanarRotations
from haarflow.algebra.reps import natural_rep, trivial_rep
from haarflow.experiments import beyond_kernels, escape_law, generalisation, lazy_active, rates, strong_invariance
from haarflow.runs.experiment import stream

KEY = jax.random.key(0)


class Enough(Exception):
    """What was to be seen has been seen."""


@pytest.fixture
def seeds(monkeypatch):
    """The seeds that a piece of work draws from before its flow begins, each as a pair of words."""

    def drawn(module, work):
        usual, seen = module.generator, []

        def heard(key):
            seen.append(tuple(np.asarray(jax.random.key_data(key)).tolist()))
            return usual(key)

        def enough(*_, **__):
            raise Enough

        with monkeypatch.context() as patch:
            patch.setattr(module, "generator", heard)
            patch.setattr(module, "flow", enough)
            with pytest.raises(Enough):
                work()
        return seen

    return drawn


def test_names_and_numbers_are_streams_of_their_own():
    names = [("start",), ("start", 1), ("start", 1, 2), ("start", 2, 1), ("escape",), ("inputs", 1)]
    keys = [stream(KEY, *name) for name in names] + [jax.random.fold_in(KEY, i) for i in range(50)] + [KEY]
    assert len({tuple(np.asarray(jax.random.key_data(key)).tolist()) for key in keys}) == len(keys)
    assert (jax.random.key_data(stream(KEY, "start", 3)) == jax.random.key_data(stream(KEY, "start", 3))).all()


def test_starts_and_samples_of_the_published_lazy_active_do_not_meet(seeds):
    full, other = lazy_active.LazyActive.full(), beyond_kernels.BeyondKernels.full()
    starts = seeds(lazy_active, lambda: full.scaling(KEY, 64))
    samples = [seed for d in other.dims for seed in seeds(beyond_kernels, lambda d=d: other.learning(KEY, d))]
    assert len(starts) == full.runs + 1
    assert not set(starts) & set(samples)


def test_starts_and_samples_of_the_published_generalisation_do_not_meet(seeds):
    full = generalisation.Generalisation.full()
    few = full.model_copy(update={"repetitions": 1})

    def sampled(size):
        few.draw(KEY, size)
        raise Enough

    sample = few.draw(KEY, 4)
    samples = [seed for size in full.sizes for seed in seeds(generalisation, lambda size=size: sampled(size))]
    starts = [seeds(generalisation, lambda n=n: few.train(KEY, sample, n, 0.1)) for n in (64, *full.widths)]
    assert not {seed for found in starts for seed in found} & set(samples)


def test_starts_and_inputs_of_rates_do_not_meet_at_any_size(seeds):
    small = rates.Rates(sizes=(11, 12), particles=12, repetitions=2, inputs=5)
    for n in small.sizes:
        found = seeds(rates, lambda n=n: small.train(KEY, "tanh SGD", n, 0.1, 20))
        assert len(set(found)) == len(found) == 2


def test_repetitions_and_escapes_have_different_keys(monkeypatch):
    seen = []

    def heard(*_, key, **__):
        seen.append(np.asarray(jax.random.key_data(key)).tolist())
        raise Enough

    for module in (strong_invariance, escape_law):
        monkeypatch.setattr(module, "flow", heard)
    quick = strong_invariance.StrongInvariance()
    with pytest.raises(Enough):
        quick.train(KEY, "weak", 5, range(quick.repetitions))
    with pytest.raises(Enough):
        escape_law.EscapeLaw().escape(KEY, 100, 0.1, 20)
    runs, escapes = seen
    first_steps = [
        np.asarray(jax.random.key_data(jax.random.fold_in(jax.random.wrap_key_data(np.uint32(run)), k)))
        for run in runs
        for k in range(16)
    ]
    assert not {tuple(key) for key in escapes} & {tuple(key.tolist()) for key in first_steps}


def test_the_unit_of_generalisation_has_the_action_it_declares():
    group = PlanarRotations(4)
    assert generalisation.UNIT.action(natural_rep(group), trivial_rep(group)).dim == generalisation.UNIT.dim == 3
