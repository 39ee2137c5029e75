"""GANs keep their symmetry before and after training, resume to the bit, come back from files, and refuse bad input.

The laws of generators, discriminators and objectives are asked in test_members.py, and seen failing there.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import haarflow as hf
from haarflow.dynamics import checkpoints
from haarflow.fast.patches import correlate, twice
from haarflow.fast.switch import plain
from haarflow.learning.objectives import conjugate
from haarflow.models.group_convolutions import halved
from haarflow.practice.gan_data import side_of
from haarflow.practice.gans import INVARIANT, ROWS

TURNS = hf.natural_rep(hf.PlanarRotations(4))
SPACE = TURNS + hf.trivial_rep(TURNS.group)
POINTS = np.random.default_rng(0).normal(size=(20, 3)) + np.array([3.0, 3.0, 0.0])
IMAGES = np.random.default_rng(1).uniform(size=(12, 8, 8))
CLASSES = np.array(["seven", "one", "two"] * 4)
SMALL = {"widths": (8, 4), "latent": 3, "batch": 6, "objective": "wasserstein", "rates": (1e-2, 1e-2)}


@pytest.fixture(scope="module")
def sheets(tmp_path_factory):
    return tmp_path_factory.mktemp("sheets")


@pytest.fixture(scope="module")
def turned(sheets):
    gan = hf.GAN(on_x="rotations", widths=(4, 8), latent=3, batch=4)
    return gan.fit(IMAGES, CLASSES, key=0, steps=3, every=1, sheets=sheets)


@pytest.fixture(scope="module")
def trained():
    return hf.GAN(on_x=SPACE, **SMALL).fit(POINTS, key=0, steps=40, every=10)


def test_networks_that_know_the_group_keep_it_before_and_after_training(trained):
    assert max(trained.violation(1).values()) < 1e-10
    assert np.abs(trained.sheets[-1] - trained.sheets[0]).max() > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(("symmetry", "least", "most"), [("both", 0, 1e-10), ("plain", 0.1, np.inf)])
def test_fresh_networks_keep_the_group_where_they_know_it(symmetry, least, most):
    fitted = hf.GAN(on_x=SPACE, symmetry=symmetry, **SMALL).fit(POINTS, key=0, steps=0)
    assert least <= fitted.violation(1)["generator"] < most


def test_image_networks_keep_the_group_and_know_their_classes(turned, tmp_path):
    assert max(turned.violation(1).values()) < 1e-10
    assert turned.classes == ("one", "seven", "two")
    assert turned.sheets.shape == (4, 32, 8, 8)
    made = turned.sample(2, 5, labels="two")
    assert made.shape == (5, 8, 8)
    assert made.min() >= IMAGES.min()
    assert made.max() <= IMAGES.max()
    turned.save(tmp_path / "gan.npz")
    again = hf.gans.FittedGAN.load(tmp_path / "gan.npz")
    np.testing.assert_array_equal(again.sample(2, 5, labels="two"), made)
    np.testing.assert_array_equal(again.sheets, turned.sheets)


def test_a_symmetry_needs_a_group_and_classes_are_those_of_the_data(turned):
    with pytest.raises(hf.Refusal, match="is told how a group moves the data; got no on_x"):
        hf.GAN(symmetry="both")
    with pytest.raises(hf.Refusal, match="one, seven, two, one for all .* got the class 'nine'"):
        turned.sample(0, 3, labels="nine")
    with pytest.raises(hf.Refusal, match="one class for each of the 20 points"):
        hf.GAN(on_x=SPACE).fit(POINTS, [1, 2], key=0)
    assert jax.tree.leaves(turned.generator)


def test_layers_that_know_the_group_have_as_many_parameters_where_it_is_asked():
    """Filters are shared by |G| elements and are |G| times as many; offsets and the ends make the difference."""

    def numbers(row, **options):
        gan = hf.GAN(on_x="rotations", symmetry=row, widths=(16, 32), **options)
        field = gan.field(jax.random.key(0), side_of("rotations", IMAGES), IMAGES, None, 0)
        return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(field.discriminator, eqx.is_array)))

    plainly = numbers("plain")
    assert numbers("both", same="parameters") == pytest.approx(plainly, rel=0.02)
    assert numbers("both") < 0.3 * plainly
    with pytest.raises(hf.Refusal, match="wider by the root of the order of a finite group; got SpecialOrthogonal"):
        hf.GAN(on_x=hf.natural_rep(hf.SpecialOrthogonal(3)), same="parameters").fit(POINTS, key=0, steps=0)


@pytest.mark.slow
def test_the_violation_is_measured_where_float64_is_off():
    """As a caller has it: the program that was made in single precision is not taken for that in double."""
    with jax.enable_x64(False):
        fitted = hf.GAN(on_x="rotations", widths=(4,), latent=3, batch=4).fit(IMAGES, key=0, steps=0)
        assert max(fitted.violation(1).values()) < 1e-10


def test_a_symmetrised_law_is_invariant_and_an_unsymmetrised_one_is_not():
    """The mean of 4000 points in the plane, in standard errors: above 6 for an invariant law in one of 10⁸ draws."""

    def off_centre(row):
        gan = hf.GAN(on_x=SPACE, symmetry=row, widths=(32, 16), latent=3)
        drawn = gan.fit(POINTS, key=3, steps=0).sample(4, 4000)[:, :2]
        return np.abs(drawn.mean(axis=0) / drawn.std(axis=0)).max() * np.sqrt(4000)

    assert off_centre("both") < 6
    assert off_centre("unsymmetrised") > 6


def test_a_killed_training_resumes_to_the_bit(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "_SECONDS", 0.0)
    gan, file = hf.GAN(on_x=SPACE, **SMALL), tmp_path / "place.npz"

    def die(fraction):
        if fraction > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gan.fit(POINTS, key=0, steps=40, every=10, checkpoint=file, progress=die)
    resumed = gan.fit(POINTS, key=0, steps=40, every=10, checkpoint=file)
    np.testing.assert_array_equal(resumed.sheets, trained.sheets)
    np.testing.assert_array_equal(resumed.sample(1, 9), trained.sample(1, 9))


@pytest.mark.usefixtures("turned")
def test_sheets_are_written_while_it_trains(sheets):
    assert [path.name for path in sorted(sheets.glob("*.png"))] == [f"sheet-00{k}.png" for k in range(4)]


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_every_row_trains(row):
    fitted = hf.GAN(on_x=SPACE, symmetry=row, **SMALL).fit(POINTS, key=0, steps=5)
    assert fitted.symmetry == row
    assert np.isfinite(fitted.sample(0, 5)).all()
    assert (fitted.violation(0)["discriminator"] < 1e-10) == (row in INVARIANT)


@pytest.mark.parametrize("alpha", [1.5, 2.0, 3.0])
def test_the_conjugate_is_the_supremum(alpha):
    """f*(y) = sup over t >= 0 of t y − (t^α − 1)/(α(α−1)), on a fine grid of t."""
    t = np.linspace(0, 60, 600_001)
    for y in (-1.0, 0.25, 1.5):
        known = np.max(t * y - (t**alpha - 1) / (alpha * (alpha - 1)))
        assert float(conjugate(jnp.asarray(alpha), jnp.asarray([y]))[0]) == pytest.approx(known, abs=1e-6)


def test_patches_are_convolutions():
    draw = np.random.default_rng(3)
    x, bank = draw.normal(size=(2, 5, 5, 3)), draw.normal(size=(3, 3, 3, 4))
    few = draw.normal(size=(3, 3, 3, 2))
    for filters, padded, doubled in ((bank, True, False), (bank, False, False), (few, True, False), (bank, True, True)):
        found = np.asarray(correlate(jnp.asarray(x), jnp.asarray(filters), padded=padded, doubled=doubled))
        with plain():
            known = np.asarray(correlate(jnp.asarray(x), jnp.asarray(filters), padded=padded, doubled=doubled))
        np.testing.assert_allclose(found, known, atol=1e-12)
    fields = jnp.asarray(draw.normal(size=(2, 4, 4, 2)))
    turned = np.rot90(halved(fields), axes=(1, 2))
    np.testing.assert_allclose(turned, halved(jnp.rot90(fields, axes=(1, 2))), atol=1e-15)
    np.testing.assert_allclose(halved(twice(fields)), fields)


ODD = np.random.default_rng(2).uniform(size=(3, 7, 7))
WORDS = {
    "on_x moves the data; got a representation on R\\^3 and points of R\\^2": ({"on_x": SPACE}, np.ones((4, 2))),
    "fitted to points .* one or more; got the shape \\(0, 3\\)": ({"on_x": SPACE}, np.ones((0, 3))),
    "NaN|finite": ({"on_x": SPACE}, np.full((4, 3), np.nan)),
    "can be halved 2 times, .* breaks the symmetry; got 7 × 7": ({"on_x": "rotations", "widths": (4, 8)}, ODD),
    "A width counts the channels of all 4 elements": ({"on_x": "rotations", "widths": (6, 8)}, IMAGES),
    "A GAN takes square images; got 8 × 6": ({"on_x": "rotations"}, IMAGES[:, :, :6]),
    "dark and bright pixels; got 1 everywhere": ({"on_x": "rotations"}, np.ones((2, 8, 8))),
    "'rotations' \\(C4\\), 'dihedral' \\(D4\\)": ({"on_x": "spirals"}, IMAGES),
    "A hidden layer is made of copies .* got a width of 3": ({"on_x": SPACE, "widths": (3,)}, POINTS),
}


@pytest.mark.parametrize("words", WORDS)
def test_bad_input_is_refused_in_a_sentence(words):
    options, x = WORDS[words]
    with pytest.raises(hf.Refusal, match=words):
        hf.GAN(**options).fit(x, key=0, steps=1)
