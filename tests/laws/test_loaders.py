"""Batches from the host: each step sees its own, whatever the source, and a source that fails says why."""

import itertools

import jax
import numpy as np
import pytest

from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler, Heun
from haarflow.errors import Refusal
from haarflow.learning.data import Sample
from haarflow.learning.loaders import Loader
from haarflow.learning.risks import Risk
from haarflow.measures.clouds import uniform
from haarflow.models.units import Dense, Perceptron

KEY = jax.random.key(0)
DRAW = np.random.default_rng(0)
BATCHES = [(xs, np.sin(xs[:, :1])) for xs in DRAW.normal(size=(5, 4, 2))]
UNIT = Dense(2, 1, "tanh")
START = uniform(DRAW.normal(size=(3, 2)))


class Files:
    """An iterable that begins again, as one that reads files does, and counts how often it began."""

    def __init__(self):
        self.begun = 0

    def __iter__(self):
        self.begun += 1
        return iter(BATCHES)


SOURCES = {
    "a function": lambda: lambda step: BATCHES[step % 5],
    "a sequence": lambda: BATCHES,
    "an iterable": Files,
}


def trained(source, steps=12, scheme=None, **options):
    field = Descend(Risk(UNIT, Loader(source) if not isinstance(source, Loader) else source))
    return flow(field, scheme or Euler(), START, key=KEY, dt=0.3, steps=steps, **options)


def by_hand(steps, scheme=None):
    """One flow of one step on the batch of each step."""
    cloud = START
    for xs, ys in itertools.islice(itertools.cycle(BATCHES), steps):
        field = Descend(Risk(UNIT, Sample(xs, ys)))
        cloud = flow(field, scheme or Euler(), cloud, key=KEY, dt=0.3, steps=1).cloud
    return cloud.atoms


@pytest.mark.parametrize("kind", SOURCES)
def test_every_step_sees_its_batch(kind):
    np.testing.assert_allclose(trained(SOURCES[kind]()).cloud.atoms, by_hand(12), rtol=1e-12)


def test_a_scheme_of_two_stages_sees_one_batch_a_step_and_an_iterable_is_read_forward():
    source = Files()
    np.testing.assert_allclose(trained(source, scheme=Heun()).cloud.atoms, by_hand(12, Heun()), rtol=1e-12)
    assert source.begun <= 2 + 1 + 2  # to look, to begin, and at the end of every epoch


def test_runs_and_fields_share_their_batches():
    field, other = (Descend(Risk(UNIT, loader)) for loader in [Loader(BATCHES)] * 2)
    paths = flow({"a": field, "b": other}, Euler(), START, key=jax.random.split(KEY, 3), dt=0.3, steps=6)
    for path in paths.values():
        np.testing.assert_allclose(path.cloud.atoms, np.stack([by_hand(6)] * 3), rtol=1e-12)


def test_a_killed_flow_resumes_with_the_batch_it_would_have_seen(tmp_path, monkeypatch):
    from haarflow.dynamics import checkpoints

    monkeypatch.setattr(checkpoints, "_SECONDS", 0.0)
    whole = trained(Files(), steps=40).cloud.atoms

    def stop(_):
        raise KeyboardInterrupt

    options = {"steps": 40, "checkpoint": tmp_path / "place"}
    with pytest.raises(KeyboardInterrupt):
        trained(Loader(Files(), name="files"), progress=stop, **options)
    np.testing.assert_array_equal(trained(Loader(Files(), name="files"), **options).cloud.atoms, whole)
    with pytest.raises(Refusal, match="resumes the flow that wrote it"):
        trained(Loader(Files(), name="other files"), **options)


def short(step):
    xs, ys = BATCHES[step % 5]
    return (xs, ys) if step < 7 else (xs[:2], ys[:2])


def broken(step):
    if step == 7:
        raise KeyError("part-7.npz")
    return BATCHES[step % 5]


FAILING = {
    "a short batch": (short, r"of one shape, \(4, 2\) and \(4, 1\); got \(2, 2\) and \(2, 1\) at step 7. Leave out"),
    "an error": (broken, "a batch for every step; got an error at step 7, KeyError: 'part-7.npz'. Mend the source"),
    "no pair": (
        lambda step: BATCHES[0] if step < 7 else BATCHES[0][0],
        r"a pair of inputs .*at step 7. Write",
    ),
    "nan": (lambda step: BATCHES[0] if step < 7 else (BATCHES[0][0] * np.nan, BATCHES[0][1]), "holds finite numbers"),
}


@pytest.mark.parametrize("case", FAILING)
def test_a_source_that_fails_in_a_flow_says_why(case):
    source, sentence = FAILING[case]
    with pytest.raises(Refusal, match=sentence):
        trained(source)
    trained(source, steps=6)


def shuffling():
    class Shuffled:
        draw = np.random.default_rng(0)

        def __iter__(self):
            return iter([BATCHES[i] for i in self.draw.permutation(5)])

    return Shuffled()


REFUSED = {
    "a generator": (lambda: (batch for batch in BATCHES), "got a generator, which can be read once only. Write a func"),
    "another order": (shuffling, "whose first batch is another every time. Write a function batch"),
    "nothing": (lambda: [], "got one without batches. Write at least one"),
    "an empty iterable": (lambda: {}.keys(), "got one without batches"),
    "a word": (lambda: "files", "or an iterable that can be begun again; got 'files'. Write a function"),
    "a number": (lambda: 3, "got 3. Write a function"),
    "two arguments": (lambda: lambda key, size: BATCHES[0], "which does not take one number. Write def batch"),
    "one array": (
        lambda: lambda step: np.ones((2, 2)),
        r"is a pair of inputs .*; got an array",
    ),
    "words": (lambda: [(np.array([["a"]]), [1])], "A batch of a Loader is an array of real numbers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_asked_for_a_step_is_refused(case):
    source, sentence = REFUSED[case]
    with pytest.raises(Refusal, match=sentence):
        Loader(source())


def test_labels_of_a_loader_are_those_of_the_loss():
    signs = Loader([(xs, np.where(ys > 0, 1, -1)[:, 0]) for xs, ys in BATCHES])
    Risk(UNIT, signs, "logistic")
    with pytest.raises(Refusal, match="are drawn as the loss 'hinge' takes them; got 0, 1. Write labels -1 and 1"):
        Risk(UNIT, Loader([(xs, ys > 0) for xs, ys in BATCHES]), "hinge")
    with pytest.raises(Refusal, match=r"Write jax.nn.one_hot\(labels, 2\)"):
        Risk(Perceptron(2, 2), Loader([(xs, ys > 0) for xs, ys in BATCHES]), "cross-entropy")


def test_numbers_of_every_type_are_taken_and_float32_stays():
    for kind, found in ((np.float32, np.float32), (np.uint8, np.float64), (np.float64, np.float64)):
        loader = Loader([(np.ones((2, 3), kind), [1, 2])])
        xs, ys = loader.batch(KEY)
        assert (xs.dtype, ys.dtype, ys.shape) == (found, np.float64, (2, 1))
        assert jax.jit(lambda data: data.batch(KEY))(loader)[0].dtype == found
