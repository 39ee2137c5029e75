"""The sentences with which sparse ReLU learning refuses bad input."""

import numpy as np
import pytest

from haarflow.errors import Refusal
from haarflow.practice.relu_program import relu_program

X = np.random.default_rng(0).normal(size=(6, 2))
Y = X[:, 0] ** 2
LINE = X[:, :1]
BEST = relu_program(X, Y, penalty=0.1, bias="none")

REFUSALS = {
    "negative penalty": (
        lambda: relu_program(X, Y, penalty=-1.0),
        "relu_program's penalty is a finite number >= 0; got -1.0. Write 0, for example.",
    ),
    "nan": (
        lambda: relu_program(X, np.where(np.arange(6) == 2, np.nan, Y), penalty=0.1),
        "relu_program's y holds finite numbers; got nan at 2. Drop or mend what is not finite.",
    ),
    "sizes": (
        lambda: relu_program(X, Y[:5], penalty=0.1),
        "relu_program's y has the shape (b, *c) with b = 6 as in relu_program's x; got the shape (5,). "
        "Give both the same size.",
    ),
    "one row": (
        lambda: relu_program(X[:1], Y[:1], penalty=0.1),
        "relu_program fits two pairs or more, inputs (b, d) and one label each; got inputs (1, 2) and labels (1,). "
        "Fit several outputs one by one.",
    ),
    "two outputs": (
        lambda: relu_program(X, X, penalty=0.1),
        "relu_program fits two pairs or more, inputs (b, d) and one label each; got inputs (6, 2) and labels (6, 2). "
        "Fit several outputs one by one.",
    ),
    "constant column": (
        lambda: relu_program(np.column_stack([X, np.ones(6)]), Y, penalty=0.1),
        "relu_program adds a bias by itself; got the column 2 of x, which is constant and would be a second one. Drop "
        'that column, or write bias="none".',
    ),
    "zeros": (
        lambda: relu_program(np.zeros((6, 2)), Y, penalty=0.1, bias="none"),
        "relu_program fits functions of x; got inputs that are all zero. Write other inputs.",
    ),
    "spline in the plane": (
        lambda: relu_program(X, Y, penalty=0.1, method="spline"),
        "relu_program takes method='spline' on the line with a free bias; got inputs in R^2 and bias free. Write "
        "another method and a small penalty, such as 1e-4.",
    ),
    "no penalty": (
        lambda: relu_program(X, Y, penalty=0.0),
        "relu_program takes penalty 0 on the line with a free bias; got inputs in R^2 and bias free. Write another "
        "method and a small penalty, such as 1e-4.",
    ),
    "two labels": (
        lambda: relu_program([[0.0], [0.0], [1.0]], [1.0, 2.0, 3.0], penalty=0.0),
        "relu_program with penalty 0 goes through all labels; got an input with two different ones. Write a penalty "
        "above 0.",
    ),
    "too many cells": (
        lambda: relu_program(
            np.random.default_rng(0).normal(size=(200, 10)), np.ones(200), penalty=0.1, method="cells"
        ),
        "relu_program over 45,012,371,557,043,312 activation cells would take 5e+10 hours or more; at most 1 are "
        'taken here. Write method="search".',
    ),
    "predict": (
        lambda: BEST.predict(LINE),
        "predict takes inputs (b, 2); got the shape (6, 1). For inputs on the line write xs[:, None].",
    ),
    "eta": (
        lambda: BEST.certificate.eta(np.eye(3)),
        "eta takes directions (n, 2), the bias last where there is one; got the shape (3, 3). Write "
        "certificate.direction[None], for example.",
    ),
    "draw": (
        lambda: BEST.draw(None),
        "draw shows a function on the line in an axis of matplotlib; got inputs in R^2. Write predict(xs) and draw a "
        "slice of it.",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_bad_input_is_refused_in_a_sentence(case):
    call, sentence = REFUSALS[case]
    with pytest.raises(Refusal) as refused:
        call()
    assert str(refused.value) == sentence
