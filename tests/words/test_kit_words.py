"""The kit of experiments at its borders: numbers of any type are taken, the rest is refused in a sentence."""

import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.errors import Refusal
from haarflow.runs import judge
from haarflow.runs.experiment import Claim, Data, Experiment, above, below, between, holds, slope

NUMBERS = [1, 1.0, np.float32(1), np.int8(1), np.array(1.0), jnp.asarray(1.0)]
NONSENSE = ["1", b"1", None, True, 1j, [1, 2], np.ones(1), np.ones((2, 2)), [[1], [1, 2]], 10**400, {}, object(), int]


@pytest.mark.parametrize("value", NUMBERS, ids=lambda value: type(value).__name__)
def test_claims_take_numbers_of_any_type(value):
    assert below("it is", value, 2) == ("it is below 2", True, 1.0, "below 2")
    assert above("it is", value, np.float32(0.5)) == ("it is above 0.5", True, 1.0, "above 0.5")
    assert between("it is", value, 0, 2) == ("it is between 0 and 2", True, 1.0, "between 0 and 2")
    assert not below("it is", value, 1).holds
    claims = below("it is", value, 2), above("it is", value, 0)
    assert all(type(claim.holds) is bool and type(claim.value) is float for claim in claims)


@pytest.mark.parametrize("value", NONSENSE, ids=lambda value: type(value).__name__)
def test_claims_refuse_what_is_not_one_number(value):
    asked = [
        lambda: below("it", value, 1),
        lambda: below("it", 1, value),
        lambda: above("it", value, 1),
        lambda: between("it", 1, value, 2),
    ]
    for ask in asked:
        with pytest.raises(Refusal, match=r"(below|above|between) judges one number; got .*\. Write for example"):
            ask()


@pytest.mark.parametrize("sentence", [None, 1.0, "", " ", ["the error"], b"error"])
def test_claims_refuse_what_is_no_sentence(sentence):
    with pytest.raises(Refusal, match=r"A claim begins with its sentence; got .* Write below\("):
        below(sentence, 1, 2)


def test_the_bound_is_printed_where_the_sentence_has_a_place_for_it():
    assert below("the variance is right within {bound:.0%}", 0.003, 0.01).sentence == "the variance is right within 1%"
    assert between("from {low} to {high}: the slope", -1, -1.3, -0.8).sentence == "from −1.3 to −0.8: the slope"
    assert below("E^{G} is kept", 0, 1e-24).sentence == "E^{G} is kept below 1e-24"
    assert above("the slack is", 0, -1e-11).sentence == "the slack is above −1e-11"


def test_nothing_holds_that_is_not_a_number_and_infinity_is_one():
    nan = float("nan")
    claims = below("it", nan, 1), above("it", nan, 1), between("it", nan, 0, 1), below("it", 0, nan)
    assert not any(claim.holds for claim in claims)
    assert above("it", np.inf, 1).holds
    with pytest.raises(Refusal, match="low < high; got 2 and 1. Write the smaller of the two first"):
        between("it", 0, 2, 1)
    with pytest.raises(Refusal, match="below judges one number; got None"):
        below("it")


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

    def claims(self, data):
        return data["claims"]

    def numbers(self, data):
        return data["numbers"]


@pytest.mark.parametrize(
    ("claims", "numbers", "sentence"),
    [
        ([True], {}, r"claims\(data\) yields claims; got True"),
        (["a"], {}, r"claims\(data\) yields claims; got 'a'"),
        (None, {}, r"claims\(data\) judges at least one claim; it gave none"),
        ([], {}, r"claims\(data\) judges at least one claim; it gave none"),
        ([Claim("a", True, "b", "")], {}, r"claims\(data\) gives one number for each name; 'a' is 'b'"),
        ([holds("a", True)] * 2, {}, "Every claim has a sentence of its own; got twice 'a'"),
        ([holds("a", True)], {"x": np.ones(2)}, r"numbers\(data\) gives one number for each name; 'x' is an array"),
        ([holds("a", True)], {"x": "1"}, r"numbers\(data\) gives one number for each name; 'x' is '1'"),
        ([holds("a", True)], [1], r"numbers\(data\) gives a dictionary with names in words; got a list of 1"),
    ],
)
def test_what_an_experiment_says_of_itself_is_refused_in_a_sentence(claims, numbers, sentence):
    with pytest.raises(Refusal, match=sentence):
        judge.judgement(Given(), Data({"claims": claims, "numbers": numbers}))


@pytest.mark.parametrize("truth", ["no", float("nan"), None, np.ones(2, bool), 1, [True]], ids=str)
def test_what_is_neither_true_nor_false_is_refused(truth):
    with pytest.raises(Refusal, match="holds judges what is true or false; 'it' is "):
        holds("it", truth)


def test_verdicts_of_numpy_and_jax_are_plain_booleans():
    claims = [holds("a", np.bool_(True)), holds("b", jnp.asarray(False)), below("c", np.nan, 1)]
    numbers = {"x": np.float32(0.5), "n": 3, "inf": np.inf}
    said = judge.judgement(Given(), Data({"claims": claims, "numbers": numbers}))
    assert said["verdicts"] == {"a": True, "b": False, "c below 1": False}
    assert said["evidence"] == {"c below 1": {"value": None, "wanted": "below 1"}}
    assert said["numbers"] == {"x": 0.5, "n": 3, "inf": None}
