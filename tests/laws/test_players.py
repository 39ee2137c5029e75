"""Players: a mapping of clouds moves by every scheme as one cloud does; who sees no others moves as if alone."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from haarflow.dynamics import checkpoints
from haarflow.dynamics.birth_death import BirthDeath
from haarflow.dynamics.domains import restrict
from haarflow.dynamics.fields import Descend, Field, Tangent, advance
from haarflow.dynamics.flow import Diverged, flow
from haarflow.dynamics.games import DescentAscent, ExpectedPayoff
from haarflow.dynamics.players import Along, map_clouds, particle_axes
from haarflow.dynamics.regions import Sphere
from haarflow.dynamics.schemes import Each, Euler, Extragradient, Heun, Langevin, Optax, Scheme, streams
from haarflow.errors import Refusal
from haarflow.learning.risks import Penalty
from haarflow.measures.clouds import Cloud, stack_clouds, uniform

KEY = jax.random.key(5)
MATRIX = jnp.array([[1.0, 0.4, -0.3], [0.2, -0.7, 0.5]])
GAME = DescentAscent(ExpectedPayoff(lambda x, y: x @ MATRIX @ y), ascend="y", growth=0.7)
MEANS = {"x": lambda clouds: clouds["x"].mean(), "y": lambda clouds: clouds["y"].mean()}


def weighted(n, p, seed):
    keys = jax.random.split(jax.random.key(seed))
    return Cloud(jax.random.normal(keys[0], (n, p)) / 2, jax.nn.softmax(jax.random.normal(keys[1], (n,))))


PAIR = {"x": weighted(5, 2, 3), "y": weighted(4, 3, 4)}


def gap(one, other):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return max(float(jnp.abs(a - b).max()) for a, b in pairs)


def test_the_noise_of_a_player_is_its_own():
    """Decided by the name: another for another player of the same shape, the same beside others or nobody."""
    still, cloud = DescentAscent(lambda clouds: jnp.zeros(()), ascend=()), uniform(jnp.zeros((6, 2)))

    def ends(*names):
        return flow(still, Langevin(Euler(), 0.5), dict.fromkeys(names, cloud), key=KEY, dt=0.1, steps=2).cloud

    both, other = ends("x", "y"), ends("a", "x", "z")
    assert gap(both["x"], both["y"]) > 0.1
    assert gap(both["x"], other["x"]) == 0
    pairs = np.stack([np.ravel(both[name].atoms) for name in "xy"])
    assert abs(np.corrcoef(pairs)[0, 1]) < 0.9


def test_particles_are_found_by_adding_one():
    """Also where no shape tells them apart: four particles in R^4, two players of one shape."""
    same = {"x": uniform(jnp.ones((4, 4))), "y": uniform(jnp.zeros((4, 4)))}

    def start(clouds):
        pairs = clouds["x"].atoms @ clouds["y"].atoms.T
        return clouds["y"].atoms, jnp.zeros((4, 4)), pairs, clouds["x"].weights, jnp.zeros(())

    found = particle_axes(start, same)
    x, y = (0, "x"), (0, "y")
    assert found == (Along((y,)), Along(), Along((x, (1, "y"))), Along((x,)), Along())
    assert particle_axes(lambda cloud: cloud.atoms.T, same["x"]) == Along(((1, ""),))
    with pytest.raises(Refusal, match="A Scheme's start is compiled by JAX .*; got one that looks at their values"):
        particle_axes(lambda cloud: jnp.full(4, float(cloud.atoms[0, 0])), same["x"])


class Odd(Scheme):
    """A momentum that lies turned, (p, n), beside numbers that look like it and are nobody's."""

    def start(self, clouds):
        return map_clouds(lambda cloud: (cloud.atoms.T * 0, jnp.arange(16.0).reshape(4, 4)), clouds)

    def step(self, key, field, clouds, state, dt):
        tangents = field(streams(key)[0], clouds)
        memory = map_clouds(lambda _, tangent, kept: (tangent.velocity.T, kept[1]), clouds, tangents, state)
        return advance(clouds, tangents, dt), memory

    @classmethod
    def examples(cls):
        return []


@pytest.mark.parametrize("inner", [Odd(), Each({"x": Odd(), "y": Optax(optax.sgd(1.0, momentum=0.9))})])
def test_memory_follows_the_copies_of_its_own_player(inner):
    """Under ½|θ|² a particle's memory is minus or plus where it was: true of it after the jumps too."""
    clouds = {"x": uniform(jnp.arange(16.0).reshape(4, 4)), "y": uniform(100 + jnp.arange(16.0).reshape(4, 4))}
    field = DescentAscent(
        lambda all: all["x"].second_moment() / 2 + all["y"].second_moment() / 2, ascend=(), growth=1e6
    )
    scheme = BirthDeath(inner)
    step = eqx.filter_jit(lambda key: scheme.step(key, field, clouds, scheme.start(clouds), jnp.asarray(1e-3)))
    moved, state = step(jax.random.key(5))
    momentum = {"x": -state["x"]["x"][0].T} if isinstance(inner, Each) else {n: -state[n][0].T for n in clouds}
    momentum |= {"y": jax.tree.leaves(state["y"])[0]} if isinstance(inner, Each) else {}
    for name in clouds:
        np.testing.assert_allclose(moved[name].atoms, momentum[name] * (1 - 1e-3), rtol=1e-12)
        assert len(np.unique(np.asarray(moved[name].atoms)[:, 0])) < 4
    kept = state["x"]["x"][1] if isinstance(inner, Each) else state["x"][1]
    np.testing.assert_array_equal(kept, np.arange(16.0).reshape(4, 4))


def test_each_player_steps_from_where_all_were():
    """Exactly Euler, in a game too; a scheme that tries points tries them while the others stay."""
    dt, one, noisy = jnp.asarray(0.2), Each({"x": Heun(), "y": Euler()}), Langevin(Euler(), 0.1)
    each = Each(dict.fromkeys(PAIR, noisy))
    assert gap(noisy.step(KEY, GAME, PAIR, (), dt)[0], each.step(KEY, GAME, PAIR, each.start(PAIR), dt)[0]) < 1e-15
    moved, _ = one.step(KEY, GAME, PAIR, one.start(PAIR), dt)
    here = GAME(KEY, PAIR)
    there = GAME(KEY, {**PAIR, "x": advance(PAIR["x"], here["x"], dt)})["x"]
    mean = jax.tree.map(lambda a, b: (a + b) / 2, here["x"], there)
    assert gap(moved["x"], advance(PAIR["x"], mean, dt)) < 1e-15
    assert gap(moved["y"], advance(PAIR["y"], here["y"], dt)) < 1e-15


SCHEME = Each({"x": Extragradient(), "y": Langevin(Optax(optax.adam(1.0)), 1e-3)})


@pytest.mark.slow
def test_many_keys_run_players_as_one_program():
    keys, dt = jax.random.split(KEY, 3), np.array([0.1, 0.2, 0.1])
    stacked = {"x": stack_clouds([weighted(5, 2, seed) for seed in (3, 8, 9)]), "y": PAIR["y"]}
    options: Any = {"steps": 20, "every": 10, "probes": MEANS}
    batch = flow(GAME, SCHEME, stacked, key=keys, dt=dt, **options)
    assert batch.probes["y"].shape == (3, 3, 3)
    for i, seed in enumerate((3, 8, 9)):
        start = {"x": weighted(5, 2, seed), "y": PAIR["y"]}
        alone = flow(GAME, SCHEME, start, key=keys[i], dt=dt[i], **options)
        assert gap(jax.tree.map(lambda leaf, i=i: leaf[i], batch.cloud), alone.cloud) < 1e-11
        np.testing.assert_allclose(batch.probes["x"][i], alone.probes["x"], rtol=1e-10, atol=1e-13)


def test_lanes_take_the_same_players_or_each_its_own():
    """Names of the lanes give each lane its own, a cloud or players; other names are players of all lanes."""
    games = {"slow": GAME, "fast": DescentAscent(GAME.payoff, ascend="y", transport=2.0)}
    options: Any = {"key": KEY, "dt": 0.1, "steps": 5}
    together = flow(games, Euler(), PAIR, **options)
    own = flow(games, Euler(), {"slow": PAIR, "fast": {"x": PAIR["x"], "y": weighted(6, 3, 11)}}, **options)
    for name in ("slow", "fast"):
        alone = flow(games[name], Euler(), PAIR, **options).cloud
        assert gap(together[name].cloud, alone) < 1e-13
        assert (gap(own[name].cloud, alone) < 1e-13) if name == "slow" else own[name].cloud["y"].n == 6
    mixed = flow({"a": Descend(Penalty(1.0)), "b": GAME}, Euler(), {"a": PAIR["x"], "b": PAIR}, **options)
    np.testing.assert_allclose(mixed["a"].cloud.atoms, 0.9**5 * PAIR["x"].atoms, rtol=1e-13)
    assert set(mixed["b"].cloud) == {"x", "y"}


class Killed(Exception):
    pass


def test_killed_players_resume_to_the_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "_SECONDS", 0.0)
    options: Any = {"key": KEY, "dt": 0.05, "steps": 100, "every": 30, "probes": MEANS}
    whole = flow(GAME, SCHEME, PAIR, **options)

    def die(fraction):
        if fraction > 0.5:
            raise Killed

    with pytest.raises(Killed):
        flow(GAME, SCHEME, PAIR, **options, checkpoint=tmp_path / "a.npz", progress=die)
    resumed = flow(GAME, SCHEME, PAIR, **options, checkpoint=tmp_path / "a.npz")
    assert gap(whole.cloud, resumed.cloud) == 0
    np.testing.assert_array_equal(whole.probes["y"], resumed.probes["y"])
    swapped = Each({"x": SCHEME.schemes["y"], "y": SCHEME.schemes["x"]})
    with pytest.raises(Refusal, match="resumes the flow that wrote it"):
        flow(GAME, swapped, PAIR, **options, checkpoint=tmp_path / "a.npz")


def test_a_player_that_diverges_stops_its_run_and_no_other():
    quartic = DescentAscent(
        lambda all: all["x"].weights @ all["x"].atoms[:, 0] ** 4 + 0 * all["y"].mean()[0], ascend="x"
    )
    starts = {
        "x": stack_clouds([uniform(jnp.full((2, 1), size)) for size in (0.1, 3.0)]),
        "y": uniform(jnp.ones((3, 2))),
    }
    with pytest.warns(Diverged, match=r"1 of 2 runs of the flow met .*: run 1 after step \d+; the others went on"):
        path = flow(quartic, Euler(), starts, key=jax.random.split(KEY, 2), dt=0.1, steps=40, every=10, probes=MEANS)
    assert path.ended[0] == 40
    assert path.ended[1] < 10
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(path.cloud))
    assert np.isnan(path.probes["y"][1, 1:]).all()


def test_one_player_is_restricted_and_the_other_goes_free():
    projector = np.diag([1.0, 0.0])
    free, held = (
        flow(field, Euler(), PAIR, key=KEY, dt=0.1, steps=3).cloud for field in (GAME, restrict(GAME, {"x": projector}))
    )
    np.testing.assert_array_equal(held["x"].atoms[:, 1], 0)
    assert gap(free["y"], held["y"]) > 1e-3
    flat = restrict(GAME, {"x": projector})(KEY, PAIR)
    np.testing.assert_array_equal(flat["y"].velocity, GAME(KEY, PAIR)["y"].velocity)


class Wrong(Field):
    """Answers whatever it is given."""

    answer: object = eqx.field(static=True)

    def __call__(self, key, clouds):
        return self.answer(clouds)

    @classmethod
    def examples(cls):
        return []


class Clipped(Scheme):
    """Written for one cloud."""

    def step(self, key, field, clouds, state, dt):
        return Cloud(clouds.atoms.clip(-1, 1), clouds.weights), state

    @classmethod
    def examples(cls):
        return []


def still(cloud):
    return Tangent(0 * cloud.atoms)


BAD = {
    r"A Descend moves one cloud; got the players 'x' and 'y'. Write DescentAscent\(payoff, ascend=\(\)\)": {
        "field": Descend(Penalty(1.0))
    },
    r"of players returns a Tangent for each of them, 'x' and 'y'; got tangents of 'x' from Wrong. Write return": {
        "field": Wrong(lambda clouds: {"x": still(clouds["x"])})
    },
    "of players returns a Tangent for each of them, 'x' and 'y'; got None from Wrong": {"field": Wrong(lambda _: None)},
    r"a velocity for each atom \(4, 3\); got velocities of shape \(5, 2\) from Wrong for 'y'": {
        "field": Wrong(lambda clouds: {"x": still(clouds["x"]), "y": still(clouds["x"])})
    },
    "The field Wrong takes one cloud; got the players 'x' and 'y'. Write a field that returns a Tangent for each": {
        "field": Wrong(lambda cloud: Tangent(cloud.atoms))
    },
    r"The scheme Clipped takes one cloud; got the players 'x' and 'y'. Write it by advance and map_clouds": {
        "scheme": Clipped()
    },
    r"A flow along one field takes one scheme; got schemes for 'x' and 'y'. Write Each\(\{player: scheme\}\)": {
        "scheme": {"x": Euler(), "y": Euler()}
    },
    "Each has a scheme for every player; got schemes for 'x' and the players 'x' and 'y'": {
        "scheme": Each({"x": Euler()})
    },
    "Each has a scheme for every player; got schemes for 'x' and one cloud": {
        "scheme": Each({"x": Euler()}),
        "cloud": PAIR["x"],
    },
    "A DescentAscent is of players, a mapping of clouds by name; got one cloud": {"cloud": PAIR["x"]},
    "A DescentAscent of 'y' takes these players; got 'a' and 'x'": {"cloud": {"a": PAIR["x"], "x": PAIR["y"]}},
    "Players are clouds by their names; got a dict of 0 with nobody": {"cloud": {}},
    "is a mapping whose names are words in quotes; got the name 3": {"cloud": {"x": PAIR["x"], 3: PAIR["y"]}},
    "Players are clouds by their names; got a dict of 1 with 'x'": {"cloud": {"x": PAIR}},
    "starts from one cloud, or a cloud for each; got fields 'a' and 'x' and clouds 'x' and 'y'": {
        "field": {"a": GAME, "x": GAME}
    },
    r"flow's cloud\['x'\] is a Cloud or a mapping; got 3": {"cloud": {"x": 3}},
    "The probe m takes one cloud; got the players 'x' and 'y'. Write a probe of the whole mapping": {
        "probes": {"m": lambda cloud: cloud.mean()}
    },
    r"one cloud for each key; got 2 clouds and one key": {"cloud": {**PAIR, "x": stack_clouds([PAIR["x"]] * 2)}},
    "A BirthDeath scheme turns a field's growth into jumps; .* or Each for players of whom some do not grow": {
        "field": DescentAscent(GAME.payoff, ascend="y", growth={"x": 1.0}),
        "scheme": BirthDeath(Euler()),
    },
    r"prior draws atoms of shape \(5, 2\) for \(key, 5\); got the shape \(5, 3\)": {
        "scheme": BirthDeath(Euler(), prior=lambda key, n: jnp.ones((n, 3)))
    },
    "A field is restricted for players that there are; got domains for 'z' and the players 'x' and 'y'": {
        "field": restrict(GAME, {"z": Sphere()})
    },
    "A flow starts from finite numbers; got atoms that have no place where their field lives": {
        "field": restrict(GAME, {"x": Sphere()}),
        "cloud": {**PAIR, "x": uniform(jnp.zeros((5, 2)))},
        "key": jax.random.split(KEY, 2),
    },
    "A Sphere has no point nearest to its centre; got an atom there": {
        "field": restrict(GAME, {"x": Sphere()}),
        "cloud": {**PAIR, "x": uniform(jnp.zeros((5, 2)))},
    },
}


@pytest.mark.parametrize(("sentence", "given"), [*BAD.items()], ids=[*BAD])
def test_what_is_wrong_with_players_is_named(sentence, given):
    call: dict = {"field": GAME, "scheme": Euler(), "cloud": PAIR, "key": KEY, "dt": 0.1, "steps": 1} | given
    with pytest.raises(Refusal, match=sentence):
        flow(call.pop("field"), call.pop("scheme"), call.pop("cloud"), **call)


def test_advance_names_what_does_not_match():
    with pytest.raises(Refusal, match="a tangent for each cloud; got clouds 'x' and 'y' and tangents 'x'"):
        advance(PAIR, {"x": still(PAIR["x"])}, 0.1)
    with pytest.raises(Refusal, match=r"a tangent of the cloud's shape \(5, 2\); got \(4, 3\)"):
        advance(PAIR["x"], still(PAIR["y"]), 0.1)
    assert gap(advance(PAIR, map_clouds(still, PAIR), 0.1), PAIR) == 0
    with pytest.raises(Refusal, match="a mapping by name for the players 'x' and 'y'; got one for 'x'"):
        map_clouds(lambda cloud, rate: rate, PAIR, {"x": 1.0})
