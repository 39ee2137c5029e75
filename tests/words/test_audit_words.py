"""What equivariance_error refuses, each in one sentence."""

import numpy as np
import pytest

import haarflow as hf

X, SWAP = np.ones((3, 2)), hf.natural_rep(hf.Cyclic(2))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: hf.equivariance_error(3, X, SWAP), "a function of a batch"),
        (lambda: hf.equivariance_error(np.sum, X, SWAP), "a row of numbers for each"),
        (lambda: hf.equivariance_error(lambda x: x[:1], X, SWAP), "a row of numbers for each of 3"),
        (lambda: hf.equivariance_error(lambda x: x * np.nan, X, SWAP), "finite numbers"),
        (lambda: hf.equivariance_error(lambda x: 1 / 0, X, SWAP), "ZeroDivisionError"),
        (lambda: hf.equivariance_error(lambda x: x, X, hf.natural_rep(hf.Cyclic(3))), "inputs of 2 numbers"),
        (lambda: hf.equivariance_error(lambda x: x, X, SWAP, hf.trivial_rep(hf.Cyclic(2), 3)), "outputs of 2 numbers"),
        (lambda: hf.equivariance_error(lambda x: x, X, SWAP, hf.trivial_rep(hf.Cyclic(3), 2)), "one group"),
        (lambda: hf.equivariance_error(lambda x: x, X[:0], SWAP), "one input or more"),
        (lambda: hf.equivariance_error(lambda x: x, X, SWAP, shape=(3, 1)), "which are 3"),
        (lambda: hf.equivariance_error(lambda x: x, X, SWAP, layers=True), "another kind of model"),
        (lambda: hf.equivariance_error(lambda x: x, X, SWAP, transform=lambda g, x: x[0]), "the same shape"),
        (lambda: hf.equivariance_error(_unfitted(), X, SWAP), "Fit it first"),
        (lambda: hf.equivariance_error(_unfitted(), X, SWAP, method="predict_proba"), "with predict"),
    ],
)
def test_a_sentence_each(call, words):
    with pytest.raises(hf.Refusal, match=words) as told:
        call()
    assert "\n" not in str(told.value)


def _unfitted():
    from sklearn.linear_model import Ridge

    return Ridge()
