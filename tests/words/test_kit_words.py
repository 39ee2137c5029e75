"""The kit of experiments at its borders: numbers of any type are taken, the rest is refused in a sentence."""

import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.errors import Refusal
from haarflow.runs import judge
from haarflow.runs.experiment import Check, Experiment, above, below, between
from haarflow.runs.statistics import slope

NUMBERS = [1, 1.0, np.float32(1), np.int8(1), np.array(1.0), jnp.asarray(1.0)]
NONSENSE = ["1", b"1", None, True, 1j, [1, 2], np.ones(1), np.ones((2, 2)), [[1], [1, 2]], 10**400, {}, object(), int]


@pytest.mark.parametrize("value", NUMBERS, ids=lambda value: type(value).__name__)
def test_checks_take_numbers_of_any_type(value):
    assert below(value, 2) == (True, 1.0, "below 2")
    assert above(value, np.float32(0.5)) == (True, 1.0, "above 0.5")
    assert between(value, 0, 2) == (True, 1.0, "between 0 and 2")
    assert not below(value, 1).holds
    assert all(type(check.holds) is bool and type(check.value) is float for check in (below(value, 2), above(value, 0)))


@pytest.mark.parametrize("value", NONSENSE, ids=lambda value: type(value).__name__)
def test_checks_refuse_what_is_not_one_number(value):
    asked = [lambda: below(value, 1), lambda: below(1, value), lambda: above(value, 1), lambda: between(1, value, 2)]
    for ask in asked:
        with pytest.raises(Refusal, match=r"(below|above|between) judges one number; got .*\. Write for example"):
            ask()


def test_nothing_holds_that_is_not_a_number_and_infinity_is_one():
    nan = float("nan")
    assert not any(check.holds for check in (below(nan, 1), above(nan, 1), between(nan, 0, 1), below(0, nan)))
    assert above(np.inf, 1).holds
    with pytest.raises(Refusal, match="low < high; got 2 and 1. Write the smaller of the two first"):
        between(0, 2, 1)


@pytest.mark.parametrize(
    ("sizes", "values", "options", "sentence"),
    [
        ([], [], {}, "at least two different"),
        ([1, 2], np.ones((0, 2)), {}, "at least two different"),
        ([2, 2], [1, 1], {}, "at least two different"),
        (["a", "b"], [1, 2], {}, "slope's sizes is an array of real numbers"),
        ([1, 2], ["a", "b"], {}, "slope's values is an array of real numbers"),
        ([1, 2], [[1, 2], [3]], {}, "rows of different lengths"),
        ([1, np.nan], [1, 2], {}, "slope's sizes holds finite numbers; got nan at 1"),
        ([1, 2], [[1, np.inf]], {}, r"slope's values holds finite numbers; got inf at \[0, 1\]"),
        ([0, 2], [1, 2], {}, "positive finite sizes and values; got sizes from 0 to 2"),
        ([1, 2], [1, -2], {}, "positive finite sizes and values; got values from -2 to 1"),
        (None, [1, 2], {}, "slope's sizes is an array of real numbers"),
        ([1, 2], [1j, 2], {}, "slope's values is an array of real numbers"),
        ([1, 2], np.ones((1, 1, 2)), {}, "at least two different"),
        ([1, 2], [1, 2], {"centre": "mode"}, "slope's centre is one of median, mean; got 'mode'"),
        ([1, 2], [1, 2], {"centre": ["mean"]}, "slope's centre is one of median, mean; got a list of 1"),
        ([1, 2], [[1, 2], [1, 3]], {"confidence": 1.5}, "slope's confidence lies between 0 and 1; got 1.5"),
        ([1, 2], [[1, 2], [1, 3]], {"confidence": 0}, "slope's confidence is a (finite )?number > 0; got 0"),
        ([1, 2], [[1, 2], [1, 3]], {"confidence": np.nan}, "slope's confidence is a finite number; got nan"),
        ([1, 2], [[1, 2], [1, 3]], {"confidence": "high"}, "slope's confidence is a finite number; got 'high'"),
    ],
)
def test_slopes_refuse_what_has_no_slope(sizes, values, options, sentence):
    with pytest.raises(Refusal, match=sentence):
        slope(sizes, values, **options)


def test_slopes_take_what_people_have():
    wanted = slope(np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 4.0]))
    assert wanted == slope([1, 2, 4], (1, 2, 4)) == slope(np.int8([1, 2, 4]), np.float32([1, 2, 4]))
    assert wanted([10, 100]) == pytest.approx([10, 100])
    with pytest.raises(Refusal, match="A power law's sizes is an array of real numbers"):
        wanted(["ten"])


class Given(Experiment):
    """Whatever is given."""

    def verdict(self, data):
        return data["verdict"]

    def figures(self, data):
        return data["figures"]


@pytest.mark.parametrize(
    ("verdict", "figures", "sentence"),
    [
        ({"a": "no"}, {}, "a verdict is true or false; 'a' is 'no'"),
        ({"a": float("nan")}, {}, "a verdict is true or false; 'a' is nan"),
        ({"a": None}, {}, "a verdict is true or false; 'a' is None"),
        ({"a": np.ones(2, bool)}, {}, "a verdict is true or false; 'a' is an array"),
        (None, {}, r"verdict\(data\) gives a dictionary with names in words; got None"),
        ({1: True}, {}, r"verdict\(data\) gives a dictionary with names in words; got a dict of 1"),
        ({"a": Check(True, None, "")}, {}, r"verdict\(data\) gives one number for each name; 'a' is None"),
        ({"a": True}, {"x": np.ones(2)}, r"figures\(data\) gives one number for each name; 'x' is an array"),
        ({"a": True}, {"x": "1"}, r"figures\(data\) gives one number for each name; 'x' is '1'"),
        ({"a": True}, [1], r"figures\(data\) gives a dictionary with names in words; got a list of 1"),
    ],
)
def test_what_an_experiment_says_of_itself_is_refused_in_a_sentence(verdict, figures, sentence):
    with pytest.raises(Refusal, match=sentence):
        judge.judgement(Given(), {"verdict": verdict, "figures": figures})


def test_verdicts_of_numpy_and_jax_are_plain_booleans():
    said = judge.judgement(
        Given(),
        {
            "verdict": {"a": np.bool_(True), "b": jnp.asarray(False), "c": below(np.nan, 1)},
            "figures": {"x": np.float32(0.5), "n": 3, "inf": np.inf},
        },
    )
    assert said["verdicts"] == {"a": True, "b": False, "c": False}
    assert said["evidence"] == {"c": {"value": None, "wanted": "below 1"}}
    assert said["figures"] == {"x": 0.5, "n": 3, "inf": None}
