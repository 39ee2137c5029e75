"""Equivariance errors against closed forms, of NumPy functions; the same of PyTorch's modules below, marked slow."""

import json

import numpy as np
import pytest

import haarflow as hf

X = np.random.default_rng(0).normal(size=(400, 2))
SWAP = hf.natural_rep(hf.Cyclic(2))
TURNS = hf.natural_rep(hf.SpecialOrthogonal(2))


def tilted(e):
    """x1 + x2 + e (x1 − x2): under the swap, A² = e² E(x1 − x2)²."""
    return lambda x: x[:, 0] + x[:, 1] + e * (x[:, 0] - x[:, 1])


def test_a_known_asymmetry():
    found = hf.equivariance_error(tilted(0.1), X, SWAP)
    across, along = 0.01 * np.mean((X[:, 0] - X[:, 1]) ** 2), np.mean((X[:, 0] + X[:, 1]) ** 2)
    assert found.error == pytest.approx(across, rel=1e-12)
    assert found.relative == pytest.approx(across / (across + along), rel=1e-12)
    assert found.interval[0] < found.relative < found.interval[1]
    assert found.rows[0] == np.argmax(np.abs(X[:, 0] - X[:, 1]))
    assert found.exact
    assert found.invariant
    assert np.array_equal(found.worst, [[0, 1], [1, 0]])


def stretched(x):
    """The plane, stretched along one axis."""
    return x * [2.0, 1.0]


def test_draws_from_an_infinite_group_are_unbiased():
    """f(x) = D x, D = diag(2, 1), under SO(2): Qf = 3x/2, A² = |x|²/4, E|f|² = 5|x|²/2, so 1/10.

    4000 rows of 8 draws: the standard error of the ratio is about 0.6%, and the bound five of them (1e-6 for a normal).
    """
    many = np.random.default_rng(5).normal(size=(4000, 2))
    assert hf.equivariance_error(stretched, many, TURNS, TURNS, draws=8).relative == pytest.approx(0.1, rel=0.03)
    found = hf.equivariance_error(stretched, X, TURNS, TURNS)
    # g⁻¹ D g − D at an angle t has the squared norm sin² t |x|², and a Lie derivative of norm |x|
    here = np.mean(np.sum((X * [2.0, 1.0]) ** 2, axis=1))
    assert found.local == pytest.approx([np.sqrt(np.mean(np.sum(X**2, axis=1)) / here)], rel=1e-9)
    known = np.sin(found.angles) ** 2 * np.mean(np.sum(X**2, axis=1)) / (2 * here)
    assert np.allclose(found.curve, known, atol=1e-12)
    assert not found.exact


@pytest.mark.parametrize(("kind", "level"), [(np.float64, 1e-14), (np.float32, 1e-5)])
def test_rounding_is_called_so(kind, level):
    found = hf.equivariance_error(lambda x: np.exp(np.sum(x.astype(kind) ** 3, axis=1) / 9), X, SWAP)
    assert found.holds
    assert found.share < level
    assert "invariant under Cyclic(2) to rounding" in str(found)
    assert np.dtype(kind).name in str(found)


def test_estimators_are_asked_as_they_answer():
    from sklearn.linear_model import LogisticRegression, Ridge

    ridge = Ridge(alpha=1e-9, fit_intercept=False).fit(X, tilted(0.1)(X))
    assert hf.equivariance_error(ridge, X, SWAP).relative == pytest.approx(
        hf.equivariance_error(tilted(0.1), X, SWAP).relative, rel=1e-6
    )
    logistic = LogisticRegression().fit(X, X[:, 0] > 0)
    moved = logistic.predict(X[:, ::-1]) != logistic.predict(X)
    found = hf.equivariance_error(logistic, X, SWAP, method="predict")
    assert found.relative == pytest.approx(moved.mean() / 2)  # an indicator that moves: |e1 − e2|²/4 of |e|² = 1
    assert hf.equivariance_error(logistic, X, SWAP).relative > 0.01


def test_an_interpolated_transform_has_an_error_of_its_own():
    """A transform that shrinks by one per cent each way: |0.99² x| is what a round trip leaves."""
    found = hf.equivariance_error(
        lambda x: np.linalg.norm(x, axis=1), X, TURNS, transform=lambda g, x: 0.99 * x @ g.T, factory=lambda k: abs_sum
    )
    size = np.mean(np.sum(X**2, axis=1))
    assert found.sources["transform"] == pytest.approx(min((1 - 0.99**2) ** 2 / 2, found.relative), rel=1e-9)
    assert size > 0
    assert set(found.sources) == {"numerical", "transform", "architectural", "learned"}


def abs_sum(x):
    """A function that no rotation keeps."""
    return np.abs(x).sum(axis=1)


def test_an_answer_says_draws_and_saves_itself():
    from matplotlib.figure import Figure

    found = hf.equivariance_error(tilted(0.1), X, SWAP, before=tilted(0.5))
    assert "before training" in str(found)
    assert found.table()["measured"][:2] == ["over the group", "worst element"]
    assert json.loads(found.to_json())["relative"] == pytest.approx(found.relative)
    assert found.draw(Figure().subplots()).get_ylabel()


@pytest.mark.slow
def test_a_torch_module_with_a_known_asymmetry_and_one_without():
    torch = pytest.importorskip("torch")
    line = torch.nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        line.weight[:] = torch.tensor([[1.1, 0.9]])
    across, along = 0.01 * np.mean((X[:, 0] - X[:, 1]) ** 2), np.mean((X[:, 0] + X[:, 1]) ** 2)
    found = hf.equivariance_error(line.eval(), X, SWAP)
    assert found.relative == pytest.approx(across / (across + along), rel=1e-3)

    class Invariant(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = torch.nn.Linear(1, 8), torch.nn.Linear(8, 3)

        def forward(self, x):
            return self.outer(torch.tanh(self.inner(x[..., None])).sum(1))

    x, all_of_them = np.random.default_rng(1).normal(size=(50, 4)), hf.natural_rep(hf.Symmetric(4))
    for model, name, level in ((Invariant(), "float32", 1e-5), (Invariant().double(), "float64", 1e-13)):
        found = hf.equivariance_error(model.eval(), x, all_of_them, layers=True)
        assert found.holds
        assert found.share < level
        assert f"in {name}" in str(found)
        assert found.layers["outer"] < level**2
        assert found.layers["inner"] > 0.01
    with pytest.raises(hf.Refusal, match="training mode"):
        hf.equivariance_error(Invariant().train(), x, all_of_them)
    with pytest.raises(hf.Refusal, match="got 'middle'"):
        hf.equivariance_error(Invariant().eval(), x, all_of_them, layers={"middle": None})


@pytest.mark.slow
def test_where_along_a_convolutional_network_the_error_appears():
    """A symmetric kernel keeps flips, a stride of two on eight pixels breaks them, and a mean over pixels cannot."""
    torch = pytest.importorskip("torch")
    even, strided = torch.nn.Conv2d(1, 2, 3, padding=1), torch.nn.Conv2d(2, 2, 3, stride=2, padding=1)
    with torch.no_grad():
        even.weight.copy_((even.weight + even.weight.flip(3)) / 2)
        strided.weight.copy_((strided.weight + strided.weight.flip(3)) / 2)
    model = torch.nn.Sequential(even, torch.nn.ReLU(), strided, torch.nn.Flatten(), torch.nn.Linear(32, 1)).eval()
    x = np.random.default_rng(2).normal(size=(40, 64))
    found = hf.equivariance_error(model, x, hf.image_rep("mirror", 8, 8), shape=(1, 8, 8), layers=True)
    assert found.layers["0"] < 1e-12
    assert found.layers["1"] < 1e-12
    assert found.layers["2"] > 1e-3
