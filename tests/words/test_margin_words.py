"""What max_margin and the linear networks refuse, each in one sentence."""

import numpy as np
import pytest

import haarflow as hf

X, Y = np.array([[1.0, 2.0], [-1.0, 0.5], [0.5, -1.0]]), [1, 0, 1]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: hf.max_margin(X, [1, 2, 3]), "separates two classes; got 3: 1, 2, 3"),
        (lambda: hf.max_margin(X, [1, 1, 1]), "separates two classes; got 1: 1"),
        (lambda: hf.max_margin(X, [1, 0]), "a label of each"),
        (lambda: hf.max_margin(X, [1.0, np.nan, 0.0]), "NaN or infinity"),
        (lambda: hf.max_margin(np.full((3, 2), np.nan), Y), "max_margin's x"),
        (lambda: hf.max_margin(np.zeros((0, 2)), []), "one row or more"),
        (lambda: hf.max_margin(X, Y, under=hf.natural_rep(hf.Cyclic(3))), "a representation on R\\^3"),
        (lambda: hf.max_margin(X, Y, under=hf.Cyclic(2)), "natural_rep"),
        (lambda: hf.margins.Steerable(hf.natural_rep(hf.SpecialOrthogonal(2))), "finite groups"),
        (lambda: hf.margins.Steerable(hf.image_rep("rotations", 8, 8), depth=101), "100 layers at most"),
        (
            lambda: hf.margins.Steerable(hf.natural_rep(hf.PlanarRotations(3)), coordinates="orbit sums"),
            "more than perm",
        ),
        (lambda: hf.margins.DeepLinear(0), ">= 1"),
        (lambda: hf.margins.LogExponential(hf.margins.DeepLinear(3), hf.Sample(X, Y)), "inputs in R\\^2"),
        (lambda: hf.margins.LogExponential(hf.margins.DeepLinear(2), hf.Sample(X, [1.0, 2.0, 3.0])), "labels -1 and 1"),
    ],
)
def test_a_sentence_each(call, words):
    with pytest.raises(hf.Refusal, match=words) as told:
        call()
    assert "\n" not in str(told.value)


def test_data_that_cannot_be_separated_are_an_answer_and_predict_nothing():
    found = hf.max_margin([[1.0], [1.0]], [0, 1])
    assert not found.separable
    with pytest.raises(hf.Refusal, match="No direction separates the 2 rows"):
        found.predict([[1.0]])
