"""What the doors convert, and the sentences in which they refuse: owner, rule, what was got, what to write."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow import Refusal
from haarflow.doors import Count, Positive, PositiveLeaf, door
from haarflow.values import refuse_unless_affordable, refuse_unless_soon, said


@door
def ask(
    key: PRNGKeyArray = 0,
    xs: Float[Array, "b d"] = (),
    ys: Float[Array, "b c"] = (),
    *,
    size: Count = 1,
    rate: Positive = 1.0,
    dt: float | Array = 0.1,
    how: Literal["sum", "mean"] = "sum",
    tell: bool | Callable | None = None,
    matrices: Float[np.ndarray, "g d d"] | None = None,
    parts: Sequence[float] = (),
    probes: Mapping[str, Callable] | None = None,
):
    return locals()


@door
class Thing(eqx.Module):
    size: Count
    rate: PositiveLeaf = eqx.field(default=1.0, converter=jnp.asarray)


ROWS = [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize("key", [7, np.int64(7), jax.random.key(7), jax.random.PRNGKey(7)])
def test_a_seed_and_both_kinds_of_keys_are_one_key(key):
    assert jax.random.uniform(ask(key)["key"]) == jax.random.uniform(jax.random.key(7))


def test_large_seeds_keep_all_their_bits():
    with jax.enable_x64(False):
        small, large = ask(5)["key"], ask(5 + 2**40)["key"]
        assert not np.array_equal(jax.random.key_data(small), jax.random.key_data(large))


@pytest.mark.parametrize("rows", [ROWS, np.array(ROWS), np.array(ROWS, np.float32), jnp.array(ROWS), tuple(ROWS)])
def test_rows_of_any_type_are_floats_of_the_same_value(rows):
    found = ask(0, rows)["xs"]
    assert jnp.issubdtype(found.dtype, jnp.floating)
    np.testing.assert_array_equal(found, ROWS)


@pytest.mark.parametrize("rate", [2, 2.0, np.float32(2), np.float64(2), jnp.asarray(2), np.array(2.0)])
def test_a_number_of_any_type_makes_one_compiled_program(rate):
    thing = Thing(3.0, rate)
    assert (thing.rate.dtype, thing.rate.weak_type, thing.size) == (jnp.float64, True, 3)


def test_traced_values_pass_and_their_shapes_are_checked():
    assert jax.vmap(lambda x: ask(0, x)["xs"])(jnp.ones((4, 3, 2))).shape == (4, 3, 2)
    with pytest.raises(Refusal, match=r"ask's xs has the shape \(b, d\); got the shape \(2,\)"):
        jax.vmap(lambda x: ask(0, x)["xs"])(jnp.ones((3, 2)))


BAD = {
    r"ask's key is one key; got -1. Write jax.random.key\(0\), or a whole number": {"key": -1},
    "ask's key is one key; got 'x'": {"key": "x"},
    "ask's xs is an array of numbers; got rows of different lengths": {"xs": [[1, 2], [3]]},
    "ask's xs is an array of real numbers; got a list of 1": {"xs": [["a"]]},
    "ask's ys is an array of real numbers; got None": {"ys": None},
    r"ask's xs holds finite numbers; got nan at \[1, 0\]": {"xs": [[1.0], [np.nan]]},
    r"ask's ys has the shape \(b, c\) with b = 3 as in ask's xs; got the shape \(1, 1\)": {"xs": ROWS, "ys": [[1]]},
    r"ask's size is a whole number >= 1; got 0. Write 1, for example.": {"size": 0},
    "ask's size is a whole number; got 2.5": {"size": 2.5},
    "ask's size is a whole number; got True": {"size": True},
    "ask's rate is a finite number > 0; got -1": {"rate": -1},
    "ask's rate is a finite number; got inf": {"rate": np.inf},
    "ask's dt is a number or an array; got 'x'": {"dt": "x"},
    "ask's how is one of sum, mean; got 'median'": {"how": "median"},
    "ask's tell is True or False or a function; got 3": {"tell": 3},
    r"ask's matrices has the shape \(g, d, d\) with d = 2 as in ask's xs": {"xs": ROWS, "matrices": np.ones((1, 3, 3))},
    r"ask's parts\[1\] is a finite number; got 'b'": {"parts": [1, "b"]},
    r"ask's probes\['f'\] is a function; got 3": {"probes": {"f": 3}},
    "ask's probes is a mapping; got a list of 0": {"probes": []},
}


@pytest.mark.parametrize(("sentence", "given"), [*BAD.items()], ids=[*BAD])
def test_everything_else_is_refused_in_a_sentence(sentence, given):
    with pytest.raises(Refusal, match=sentence) as refusal:
        ask(**({"key": 0} | given))
    assert str(refusal.value).endswith(".")


def test_a_class_refuses_as_a_function_does():
    with pytest.raises(Refusal, match="A Thing's size is a whole number >= 1; got -1"):
        Thing(-1)
    with pytest.raises(Refusal, match="A Thing's rate is a finite number > 0; got 0"):
        Thing(1, 0)


def test_what_would_not_fit_says_what_it_needs():
    with pytest.raises(Refusal, match="A table would need 8 EB|A table would need 8.0e.00 EB"):
        refuse_unless_affordable("A table", 8e18, instead="Write fewer rows.")
    refuse_unless_affordable("A table", 8e3, instead="Write fewer rows.")


def test_what_was_got_is_said_in_a_few_words():
    assert said(np.ones((2, 3))) == "an array of shape (2, 3) and type float64"
    assert said(Thing) == "the class Thing itself"
    assert said(Thing(1)) == "a Thing"
    assert said(object()) == "an object"
    assert said((1, 2)) == "a tuple of 2"
    assert said(abs) == "the function abs"
    assert len(said("x" * 1000)) < 70


def test_numbers_that_a_compiler_does_not_know_are_refused_where_they_are_needed():
    @door
    def host(rate: Positive | Float[Array, ""], rows: Sequence[float] = ()):
        return float(rate) + sum(float(row) for row in rows)

    assert host(2.0) == 2.0
    for given in (host, lambda rate: host(1.0, [rate])):
        with pytest.raises(Refusal, match="host is computed from known numbers.*; got a traced array. Call it outside"):
            jax.jit(given)(2.0)
    with pytest.raises(jax.errors.ConcretizationTypeError):  # a caller's own function is to blame for its own error
        door(lambda: jax.jit(float)(2.0))()


def test_whole_numbers_have_64_bits():
    with pytest.raises(Refusal, match=r"ask's size is a whole number below 2\*\*63; got 1e\+30. Write a smaller one"):
        ask(size=1e30)


def test_numbers_beyond_single_precision_are_refused_there():
    assert Thing(1, 1e300).rate == 1e300
    with jax.enable_x64(False):
        with pytest.raises(Refusal, match=r"A Thing's rate holds numbers of float32, .*; got 1e\+300, which is beyond"):
            Thing(1, 1e300)
        with pytest.raises(Refusal, match=r"ask's xs holds numbers of float32, .*; got 1e\+300, which is beyond"):
            ask(0, [[1e300, 1.0]])
        assert ask(0, [[1e30, 1.0]])["xs"].dtype == jnp.float32


def test_what_would_take_too_long_says_how_long():
    refuse_unless_soon("A search", 3599.0, most=3600, instead="Write less.")
    with pytest.raises(Refusal, match="A search would take 2 hours or more; at most 1 are taken here. Write less"):
        refuse_unless_soon("A search", 7200.0, most=3600, instead="Write less.")
