"""Games whose flows are known: bilinear, quadratic, the replicator; and every payoff's variation against autodiff."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

from haarflow.dynamics.domains import restrict
from haarflow.dynamics.fields import Field, Tangent
from haarflow.dynamics.flow import flow
from haarflow.dynamics.games import DescentAscent, ExpectedPayoff, FunctionPayoff, Payoff
from haarflow.dynamics.regions import Sphere
from haarflow.dynamics.schemes import Adaptive, Euler, Extragradient, Heun
from haarflow.errors import Refusal
from haarflow.measures.clouds import Cloud, uniform

KEY = jax.random.key(0)
MATRIX = np.array([[1.0, 0.4, -0.3], [0.2, -0.7, 0.5]])
POINTS = {"x": uniform(jnp.array([[0.6]])), "y": uniform(jnp.array([[-0.8]]))}
PRODUCT = ExpectedPayoff(lambda x, y: x[0] * y[0])


def weighted(n, p, seed):
    keys = jax.random.split(jax.random.key(seed))
    return Cloud(jax.random.normal(keys[0], (n, p)), jax.nn.softmax(jax.random.normal(keys[1], (n,))))


def distance(clouds):
    return jnp.sqrt(sum(jnp.sum(cloud.mean() ** 2) for cloud in clouds.values()))


@pytest.mark.parametrize(
    ("scheme", "factor"),
    [
        (Euler(), lambda s: 1 + s**2),
        (Heun(), lambda s: 1 + s**4 / 4),
        (Extragradient(), lambda s: 1 - s**2 + s**4),
        (Adaptive(rtol=1e-10, atol=1e-12), lambda s: 1.0),
    ],
    ids=["Euler", "Heun", "Extragradient", "Adaptive"],
)
def test_the_bilinear_game_spirals_as_each_scheme_makes_it(scheme, factor):
    """min max xy turns around the equilibrium: Euler goes outward, extragradient inward, at known rates."""
    game, s = DescentAscent(PRODUCT, ascend="y"), 0.3
    path = flow(game, scheme, POINTS, key=KEY, dt=s, steps=40, every=8, probes={"far": distance})
    np.testing.assert_allclose(path.probes["far"] ** 2, factor(s) ** path.steps, rtol=1e-8)


@pytest.mark.parametrize("own", [False, True], ids=["zero-sum", "payoffs of their own"])
def test_quadratic_games_follow_their_matrix(own):
    """l = xᵀPx/2 + xᵀAy − yᵀQy/2: x' = −Px − A ȳ, y' = Aᵀ x̄ − Qy, of every atom, in two dimensions and in three."""
    P, Q = np.array([[0.5, 0.1], [0.1, 0.3]]), np.diag([0.2, 0.4, 0.6])
    pair = ExpectedPayoff(lambda x, y: x @ P @ x / 2 + x @ MATRIX @ y - y @ Q @ y / 2)
    losses = {"x": pair, "y": ExpectedPayoff(lambda y, x: y @ Q @ y / 2 - x @ MATRIX @ y, "y", "x")}
    game = DescentAscent(losses, ascend=()) if own else DescentAscent(pair, ascend=("y",))
    clouds, t = {"x": weighted(5, 2, 1), "y": weighted(4, 3, 2)}, 1.5
    end = flow(game, Adaptive(rtol=1e-10, atol=1e-12), clouds, key=KEY, dt=t / 2, steps=2).cloud
    means = np.concatenate([cloud.mean() for cloud in clouds.values()])
    mean = expm(t * np.block([[-P, -MATRIX], [MATRIX.T, -Q]])) @ means
    for name, home, part in (("x", P, slice(2)), ("y", Q, slice(2, 5))):
        spread = np.asarray(clouds[name].atoms) - means[part]
        np.testing.assert_allclose(end[name].atoms, mean[part] + spread @ expm(-t * home), atol=1e-8)
        np.testing.assert_allclose(end[name].weights, clouds[name].weights, rtol=1e-15)


def test_rates_of_their_own_slow_a_player_down():
    """Transport at two speeds: x' = −a ȳ, y' = b x̄, whose invariant is b x² + a y²."""
    game = DescentAscent(PRODUCT, ascend="y", transport={"x": 0.5, "y": 2.0})
    end = flow(game, Adaptive(), POINTS, key=KEY, dt=1.0, steps=1).cloud
    exact = expm(np.array([[0.0, -0.5], [2.0, 0.0]])) @ [0.6, -0.8]
    np.testing.assert_allclose([end["x"].atoms[0, 0], end["y"].atoms[0, 0]], exact, atol=1e-7)
    free = DescentAscent(PRODUCT, ascend="y", transport={"x": 0.5})(KEY, POINTS)
    np.testing.assert_allclose([free["x"].velocity, free["y"].velocity], [[[0.4]], [[0.6]]], rtol=1e-14)


PENNIES = np.array([[1.0, -1.0], [-1.0, 1.0]])


def mixed(share):
    return Cloud(jnp.eye(2), jnp.array([share, 1 - share]))


def test_growth_alone_is_the_replicator_of_the_matrix_game():
    """Euler's weights are w exp(∓η α V) to the digit; the flow keeps KL(p*|p) + KL(q*|q); mirror-prox ends at p*."""
    game = DescentAscent(ExpectedPayoff(lambda x, y: x @ PENNIES @ y), ascend="y", transport=0.0, growth=1.5)
    clouds = {"x": mixed(0.8), "y": mixed(0.3)}
    moved = flow(game, Euler(), clouds, key=KEY, dt=0.1, steps=1).cloud
    p, q = np.array([0.8, 0.2]), np.array([0.3, 0.7])
    for name, before, potential in (("x", p, -PENNIES @ q), ("y", q, p @ PENNIES)):
        exact = before * np.exp(0.1 * 1.5 * potential)
        np.testing.assert_allclose(moved[name].weights, exact / exact.sum(), rtol=1e-14)
        np.testing.assert_array_equal(moved[name].atoms, np.eye(2))

    def left(clouds):
        return sum(-jnp.mean(jnp.log(2 * cloud.weights)) for cloud in clouds.values())

    options: Any = {"key": KEY, "every": 5, "probes": {"left": left}}
    kept = flow(game, Adaptive(), clouds, dt=0.5, steps=10, **options).probes["left"]
    np.testing.assert_allclose(kept, kept[0], rtol=1e-6)
    away = flow(game, Euler(), clouds, dt=0.3, steps=60, **options).probes["left"]
    home = flow(game, Extragradient(), clouds, dt=0.3, steps=60, **options).probes["left"]
    assert (np.diff(away) > 0).all()
    assert (np.diff(home) < 0).all()
    assert home[-1] < 0.05 * home[0]


def test_an_atom_without_mass_moves_in_an_expected_payoff():
    clouds = {"x": Cloud(jnp.array([[0.6], [5.0]]), jnp.array([1.0, 0.0])), "y": POINTS["y"]}
    found = DescentAscent(PRODUCT, ascend="y")(KEY, clouds)
    np.testing.assert_allclose(found["x"].velocity, [[0.8], [0.8]], rtol=1e-14)


def test_a_random_payoff_draws_its_data_once_for_all_players():
    class Drawn(Payoff):
        """xy times a random number, which both players see."""

        size: Any = 1.0

        def __call__(self, clouds):
            return self.size * PRODUCT(clouds)

        def sample(self, key):
            return Drawn(jax.random.normal(key))

        @classmethod
        def examples(cls):
            return []

    found = DescentAscent(Drawn(), ascend="y")(KEY, POINTS)
    size = jax.random.normal(KEY)
    np.testing.assert_allclose(found["x"].velocity, [[0.8 * size]], rtol=1e-14)
    np.testing.assert_allclose(found["y"].velocity, [[0.6 * size]], rtol=1e-14)


def test_a_sphere_turns_descent_into_its_own():
    """Down the height on the circle, tan(θ/2) grows by e^t; Heun is of second order there, and never leaves."""

    class Down(Field):
        """Falls along the first axis."""

        def __call__(self, key, cloud):
            return Tangent(jnp.zeros_like(cloud.atoms).at[:, 0].set(-1.0))

        @classmethod
        def examples(cls):
            return []

    angles = np.array([0.3, 1.0, 2.0, -0.5])
    cloud = uniform(jnp.asarray(np.stack([np.cos(angles), np.sin(angles)], 1)))
    ends = 2 * np.arctan(np.tan(angles / 2) * np.exp(1.0))
    exact = np.stack([np.cos(ends), np.sin(ends)], 1)
    field = restrict(Down(), Sphere())
    end = flow(field, Adaptive(rtol=1e-10, atol=1e-12), cloud, key=KEY, dt=0.5, steps=2).cloud
    np.testing.assert_allclose(end.atoms, exact, atol=1e-8)
    errors = []
    for steps in (20, 40):
        found = flow(field, Heun(), cloud, key=KEY, dt=1 / steps, steps=steps).cloud.atoms
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-14)
        errors.append(np.abs(found - exact).max())
    assert abs(np.log2(errors[0] / errors[1]) - 2) < 0.2


TWO = {"x": weighted(5, 2, 1), "y": weighted(4, 3, 2)}
BAD = {
    r"takes points \(2,\) and \(3,\) to one real number; got an array of shape \(3,\). Write a function that": (
        lambda: ExpectedPayoff(lambda x, y: y)(TWO)
    ),
    r"takes points \(2,\) and \(3,\) to one real number; got an error": lambda: ExpectedPayoff(lambda x, y: x @ y)(TWO),
    "A payoff takes players to one real number, and .*lambda.* does not; got an array of shape": (
        lambda: FunctionPayoff(lambda clouds: clouds["x"].atoms).variation(TWO)
    ),
    "A payoff is an array of real numbers; got 'three'": (
        lambda: DescentAscent(lambda clouds: "three", ascend="y")(KEY, TWO)
    ),
    "An ExpectedPayoff is of two players; got 'x' twice": lambda: ExpectedPayoff(lambda x, y: x @ y, "x", "x"),
    "An ExpectedPayoff of 'x' and 'z' takes these players; got 'x' and 'y'": (
        lambda: ExpectedPayoff(lambda x, y: x @ y, "x", "z")(TWO)
    ),
    "An ExpectedPayoff is of players, a mapping of clouds by name; got one cloud": lambda: PRODUCT(TWO["x"]),
    "A DescentAscent of 'z' takes these players; got 'x' and 'y'": (
        lambda: DescentAscent(PRODUCT, ascend="z")(KEY, TWO)
    ),
    "A DescentAscent's payoff is a Payoff or a mapping; got 3": lambda: DescentAscent(3.0, ascend="y"),
    "A DescentAscent's transport is a finite number >= 0; got -1": (
        lambda: DescentAscent(PRODUCT, ascend="y", transport=-1.0)
    ),
    r"transport\['x'\] is a finite number >= 0; got -1": (
        lambda: DescentAscent(PRODUCT, ascend="y", transport={"x": -1.0})
    ),
    "Payoffs by name are one for every player; got none for 'y'": (
        lambda: DescentAscent({"x": PRODUCT}, ascend="y")(KEY, TWO)
    ),
}


@pytest.mark.parametrize(("words", "call"), [*BAD.items()], ids=[*BAD])
def test_what_is_no_game_is_refused_in_a_sentence(words, call):
    with pytest.raises(Refusal, match=words):
        call()
