"""The largest margin against what is known of it: small cases by hand, duality, and the three programs that agree."""

import numpy as np
import pytest

import haarflow as hf

RNG = np.random.default_rng(0)


def separated(rep, n, seed, gap=0.5):
    """Rows in R^d that an invariant direction separates."""
    draw = np.random.default_rng(seed)
    basis = rep.fixed_basis()
    x, y = draw.normal(size=(n, rep.dim)), np.where(np.arange(n) % 2, 1.0, -1.0)
    direction = basis @ draw.normal(size=basis.shape[1])
    direction /= np.linalg.norm(direction)
    wanted = gap * (1 + draw.exponential(size=n))
    return x + (np.maximum(wanted - y * (x @ direction), 0) * y)[:, None] * direction, y


def test_by_hand():
    found = hf.max_margin([[3.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]], ["b", "a", "a"])
    assert np.allclose(found.direction, [1, 0], atol=1e-12)
    assert found.margin == pytest.approx(1, abs=1e-12)
    assert found.support.tolist() == [1, 2]
    assert found.predict([[2.0, 5.0], [-0.1, 3.0]]).tolist() == ["b", "a"]
    assert "3 rows in R^2" in str(found)


@pytest.mark.parametrize(("n", "d"), [(3, 7), (12, 12), (300, 5), (400, 40)])
def test_margin_and_certificate_meet(n, d):
    """Weak duality makes both sides a proof: primal feasibility from below, a point of the hull from above."""
    x = RNG.normal(size=(n, d))
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    x[:, 0] = y * (0.3 + RNG.exponential(size=n))
    found, rows = hf.max_margin(x, y), y[:, None] * x
    assert np.linalg.norm(found.direction) == pytest.approx(1, abs=1e-14)
    assert (rows @ found.direction).min() == pytest.approx(found.margin, rel=1e-13)
    assert found.certificate.min() >= 0
    assert found.certificate.sum() == pytest.approx(1, abs=1e-13)
    assert np.linalg.norm(found.certificate @ rows) - found.margin < 1e-12 * np.abs(x).max()


REPS = [
    hf.image_rep("rotations", 5, 5),
    hf.image_rep("dihedral", 5, 5),
    3 * hf.natural_rep(hf.Symmetric(4)) ** 2,
    hf.natural_rep(hf.Signs(2)) + hf.trivial_rep(hf.Signs(2), 3),
]


@pytest.mark.parametrize("rep", REPS, ids=str)
def test_three_programs_one_classifier(rep):
    x, y = separated(rep, 16, seed=3)
    best, basis = hf.max_margin(x, y, under=rep), rep.fixed_basis()
    moved = np.asarray(rep.action().apply(x))
    augmented = hf.max_margin(moved.reshape(-1, rep.dim), np.tile(y, len(moved)))
    inside = basis @ hf.max_margin(x @ basis, y).direction
    for other in (augmented.direction, inside):
        assert np.abs(other - best.direction).max() < 1e-10
    assert np.allclose(best.scores(moved[-1]), best.scores(x), atol=1e-12)  # it is invariant
    assert abs(hf.max_margin(x, y).direction @ best.direction) < 0.99  # and the free one is another


def test_what_cannot_be_separated_is_proved():
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    kept, rep = np.isin(y, (1, 7)), hf.image_rep("rotations", 8, 8)
    x, y = x[kept], y[kept]
    assert hf.max_margin(x, y).separable
    found = hf.max_margin(x, y, under=rep)
    rows = np.where(y == 7, 1, -1)[:, None] * np.asarray(rep.project(x))
    assert not found.separable
    assert found.margin == 0
    assert np.linalg.norm(found.certificate @ rows) < 1e-12 * np.linalg.norm(rows, axis=1).max()
    assert found.certificate.min() >= 0
    assert found.certificate.sum() == pytest.approx(1)
    assert "No direction separates" in str(found)
    with pytest.raises(hf.Refusal, match="data that are not"):
        found.predict(x)


def test_a_margin_too_small_for_comfort():
    """Rows 1e-7 from the boundary, and the same scaled by 1e60."""
    x, y = RNG.normal(size=(60, 4)), np.where(np.arange(60) % 2, 1.0, -1.0)
    x[:, 0] = y * (1e-7 + RNG.exponential(size=60))
    one, other = hf.max_margin(x, y), hf.max_margin(1e60 * x, y)
    assert one.separable
    assert one.bound - one.margin < 1e-12
    assert other.margin == pytest.approx(1e60 * one.margin, rel=1e-6)


def test_an_answer_has_its_table_picture_and_json():
    import json

    from matplotlib.figure import Figure

    found = hf.max_margin([[3.0, 0.0], [-1.0, 1.0]], [1, 0])
    assert set(found.table()) == {"row", "label", "share", "score"}
    assert json.loads(found.to_json())["margin"] == pytest.approx(found.margin)
    assert found.draw(Figure().subplots()).get_xlabel()
