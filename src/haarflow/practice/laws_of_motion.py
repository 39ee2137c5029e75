"""The laws of fields, payoffs, domains and schemes: mass is kept, particles stay where they live, orders are as stated.

They are measured on clouds in R^4, or on two players "x" and "y" there; fields and payoffs may bring clouds of their
own: `examples()` may return `(member, clouds)` in the place of a member.
"""

import functools
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from haarflow.algebra.projection import ByMatrix
from haarflow.dynamics.domains import Domain, Subspace, restrict
from haarflow.dynamics.fields import Descend, Field
from haarflow.dynamics.games import Payoff
from haarflow.dynamics.players import by_name, map_clouds
from haarflow.dynamics.regions import Box, Sphere
from haarflow.dynamics.schemes import Each, Langevin, Optax, Scheme
from haarflow.dynamics.turns import Turns
from haarflow.errors import Refusal
from haarflow.learning.functionals import Penalty
from haarflow.learning.risks import Risk
from haarflow.measures.clouds import Cloud
from haarflow.practice.laws import law, require
from haarflow.practice.laws_of_learning import weighted_cloud
from haarflow.practice.laws_of_models import off
from haarflow.practice.testing import QUICK_TO_COMPILE

# Orthogonal, onto a plane askew to the axes.
ASKEW = np.array([[0.36, 0.48, 0.0, 0.0], [0.48, 0.64, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5], [0.0, 0.0, 0.5, 0.5]])


def _key() -> Any:
    return jax.random.key(5)


def two_players() -> dict[str, Cloud]:
    """Two players in R^4 of 6 and 3 atoms."""
    return {"x": weighted_cloud(), "y": weighted_cloud(n=3, seed=6)}


# Fields and payoffs


@law(Field, 1e-13)
def fields_conserve_mass(field, clouds: Cloud | Mapping[str, Cloud] | None = None):
    """A tangent of each cloud's own shape, whose growth has mean zero; a field that refuses one cloud is of players."""
    clouds, tangents = _tangents(field, clouds)
    require(set(tangents) == set(clouds), f"clouds {sorted(clouds)} get tangents {sorted(tangents)}.")
    found = 0.0
    for name, tangent in tangents.items():
        shape = clouds[name].atoms.shape
        require(tangent.velocity.shape == shape, f"atoms {shape} get velocities {tangent.velocity.shape}.")
        require(bool(jnp.isfinite(tangent.velocity).all()), "a velocity is not a number.")
        if tangent.growth is not None:
            found = max(found, abs(float(clouds[name].weights @ tangent.growth)))
    return found


@law(Field, 1e-12)
def compiled_fields_are_the_same(field, clouds: Cloud | Mapping[str, Cloud] | None = None):
    """The tangents in a compiled program, where flows ask for them, are those outside of it."""
    clouds, plain = _tangents(field, clouds)
    compiled = eqx.filter_jit(lambda field, key, clouds: field(key, clouds))(field, _key(), clouds.get("", clouds))
    pairs = zip(jax.tree.leaves(plain), jax.tree.leaves(by_name(compiled)), strict=True)
    return max(off(found, wanted) for found, wanted in pairs)


def _tangents(field: Field, clouds: Any) -> tuple[dict[str, Cloud], dict[str, Any]]:
    """The clouds that a field takes and their tangents, by name; one cloud has the name ''."""
    if clouds is None:
        try:
            return {"": weighted_cloud()}, {"": field(_key(), weighted_cloud())}
        except Refusal:
            clouds = two_players()
    found = field(_key(), clouds)
    return dict(by_name(clouds)), dict(by_name(found))


@eqx.filter_jit(compiler_options=QUICK_TO_COMPILE)  # pyright: ignore[reportCallIssue]
def _payoff_forms(payoff, clouds):
    found, known = payoff.variation(clouds), Payoff.variation(payoff, clouds)
    moved = {name: known[name].velocity for name in clouds}

    def after(h):
        return payoff({name: Cloud(clouds[name].atoms + h * moved[name], clouds[name].weights) for name in clouds})

    stated = -sum(clouds[name].weights @ jnp.sum(moved[name] ** 2, axis=1) for name in clouds)
    return found, known, (after(1e-6) - after(-1e-6)) / 2e-6, stated


@law(Payoff, 1e-12)
def the_variation_of_a_payoff_is_its_derivative(payoff, clouds: Mapping[str, Cloud] | None = None):
    """For every player, the potential in its weights and the velocity in its atoms."""
    found, known, _, _ = _payoff_forms(payoff, two_players() if clouds is None else clouds)
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(known), strict=True)
    return max(off(one, other) for one, other in pairs)


@law(Payoff, 1e-6)
def a_payoff_falls_at_the_stated_rate(payoff, clouds: Mapping[str, Cloud] | None = None):
    """dL/dt = −Σ ∫|∇V|² where every player descends it, by finite differences; and some player moves at all."""
    _, _, measured, stated = _payoff_forms(payoff, two_players() if clouds is None else clouds)
    require(float(stated) < -1e-6, "no player moves: the payoff does not depend on where the atoms of the clouds are.")
    return off(measured, stated, least=1e-3)


# Domains


@functools.cache
def _places() -> tuple[np.ndarray, np.ndarray]:
    return tuple(3 * np.random.default_rng(4).normal(size=(2, 30, 4)))  # pyright: ignore[reportReturnType]


@law(Domain, 1e-12)
def the_projection_is_the_nearest_point(domain):
    """Against 29 other points of the domain, and against itself: what is inside stays."""
    atoms = _places()[0]
    inside = np.asarray(domain.project(jnp.asarray(atoms)))
    if getattr(domain, "through", "origin") != "origin":
        return None  # a subspace through each particle's own start has every point in it
    others = np.stack([_far(domain, atoms, np.broadcast_to(one, atoms.shape)) for one in inside], axis=1)
    gaps = _far(domain, atoms, inside)[:, None] - others
    return max(float(gaps.max()), off(domain.project(jnp.asarray(inside)), inside))


@law(Domain, 1e-4)
def velocities_along_a_domain_are_where_its_steps_go(domain):
    """The step of size h = 1e-6 that ends inside is `h · along` to first order."""
    atoms, moves = map(jnp.asarray, _places())
    inside, h = domain.project(atoms), 1e-6
    return off(domain.apart(inside, domain.keep(inside, inside + h * moves)) / h, domain.along(inside, moves))


@law(Domain, 1e-12)
def what_is_taken_from_a_velocity_is_at_a_right_angle(domain):
    """`along` is an orthogonal projection of the velocity: of what it returns it takes nothing more away."""
    atoms, moves = map(jnp.asarray, _places())
    inside = domain.project(atoms)
    along = domain.along(inside, moves)
    angles = jnp.sum(along * (moves - along), axis=-1)
    return max(off(angles, jnp.zeros(len(atoms))) / 9, off(domain.along(inside, along), along))


@law(Domain, 1e-12)
def boxes_cover_a_bounded_domain(domain):
    """Every point is the projection of one in a box of `cover`, and no two of a box are brought further apart.

    A search is a proof by these two: a box then holds no value further from that at its centre than the constant says.
    A point of the domain is looked for on its ray from the origin, out to where the boxes end.
    """
    if type(domain).cover is Domain.cover:
        return None
    low, high = domain.cover(4)
    inside = np.asarray(domain.project(jnp.asarray(_places()[0])))
    rays = inside[:, None] * np.linspace(1, np.abs(low).max() / np.abs(inside).max(axis=1), 2).T[..., None]
    held = ((low - 1e-12 <= rays[:, :, None]) & (rays[:, :, None] <= high + 1e-12)).all(axis=3).any(axis=2)
    require(held.any(axis=1).all(), "a point of the domain is in no box.")
    places = rays[np.arange(len(rays)), held.argmax(axis=1)]
    draw, worst = np.random.default_rng(0), off(domain.project(jnp.asarray(places)), inside)
    for one, other in zip(low, high, strict=True):
        first, second = draw.uniform(one, other, size=(2, 50, 4))
        moved = _far(domain, *(np.asarray(domain.project(jnp.asarray(part))) for part in (first, second)))
        worst = max(worst, float((moved - np.linalg.norm(second - first, axis=1)).max()))
    return worst


def _far(domain: Domain, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """How far points are from others, along the domain where it closes on itself."""
    return np.linalg.norm(np.asarray(domain.apart(jnp.asarray(before), jnp.asarray(after))), axis=-1)


@law(Domain, 1e-12)
def no_scheme_leaves_a_domain(domain):
    """Adam with noise on top, from a start off the domain: every particle ends in it, and has moved."""
    start = Cloud(_places()[0], np.full(30, 1 / 30))
    field = Descend(Penalty(0.3))
    through = isinstance(domain, Subspace) and domain.through == "start"
    plane: Any = domain.projector if through else None
    held = restrict(field, plane.matrix, through="start") if through else restrict(field, domain)
    begun, end = _walked(Langevin(_adam(), 0.1), held, start, 20, 0.3)
    require(float(jnp.abs(end.atoms - begun.atoms).max()) > 0.1, "no particle moves.")
    return off(domain.keep(begun.atoms, end.atoms), end.atoms)


def _adam() -> Scheme:
    import optax

    return Optax(optax.adam(1.0))


# Schemes


def _walked(scheme: Scheme, field: Field, clouds: Any, steps: int, dt: float, seed: int = 5) -> tuple[Any, Any]:
    """The clouds as the loop of a flow begins them, and after a few steps of it: one program for all these numbers."""
    return _stepped(scheme, field, clouds, jnp.asarray(steps), jnp.asarray(dt), jax.random.key(seed))


@eqx.filter_jit(compiler_options=QUICK_TO_COMPILE)  # pyright: ignore[reportCallIssue]
def _stepped(scheme, field, clouds, steps, dt, key):
    def once(k, carried):
        clouds, state = carried
        after, state = scheme.step(jax.random.fold_in(key, k), field, clouds, state, dt)
        return field.keep(clouds, after), state

    begun = field.begin(clouds)
    state = jax.tree.map(jnp.asarray, scheme.start(begun))
    return begun, jax.lax.fori_loop(0, steps, once, (begun, state))[0]


def _field() -> Field:
    return Descend(Risk.examples()[0] + Penalty(0.2), growth=1.5)


class Apart(Field):
    """Every player along a field of its own, which sees that player alone; one cloud goes as the player y."""

    fields: dict[str, Field]

    def __call__(self, key, clouds):
        if isinstance(clouds, Cloud):
            return self.fields["y"](key, clouds)
        return {name: self.fields[name](key, cloud) for name, cloud in clouds.items()}

    @classmethod
    def examples(cls):
        waves = Penalty(0.3, lambda theta: jnp.sum(jnp.cos(3 * theta)))
        well = Penalty(0.7, lambda theta: jnp.sum(theta**2) ** 2)
        return [cls({"x": Descend(waves, growth=1.5), "y": Descend(well, transport=0.5, growth=6.0)})]


def _small_players() -> dict[str, Cloud]:
    return {name: Cloud(cloud.atoms / 2, cloud.weights) for name, cloud in two_players().items()}


def _alone(scheme: Scheme) -> bool:
    """Whether a scheme moves one cloud; `Each` and `Turns` are for players."""
    return not isinstance(scheme, Each | Turns)


@law(Scheme, 1e-12)
def weights_stay_a_law_even_for_a_huge_step(scheme):
    """Non-negative, of mass one, after a step of size 3 along a field that grows."""
    field, clouds = (_field(), weighted_cloud()) if _alone(scheme) else (Apart.examples()[0], _small_players())
    after = by_name(_walked(scheme, field, clouds, 1, 3.0)[1])
    least = min(float(cloud.weights.min()) for cloud in after.values())
    require(least >= 0, f"a weight is {least:.3g}.")
    return max(abs(float(cloud.weights.sum()) - 1) for cloud in after.values())


@law(Scheme, 1e-5)
def a_small_step_follows_the_field(scheme):
    """A step of size h = 1e-6, divided by h, is the velocity and the growth; of schemes that state an order."""
    if scheme.order is None:
        return None
    h, cloud, field = 1e-6, weighted_cloud(), _field()
    moved, tangent = _walked(scheme, field, cloud, 1, h)[1], field(_key(), cloud)
    grown = off((moved.weights - cloud.weights) / h, cloud.weights * tangent.growth)
    return max(off((moved.atoms - cloud.atoms) / h, tangent.velocity), grown)


@law(Scheme, 0.15)
def the_error_falls_with_the_order_of_the_scheme(scheme):
    """How far the power of dt is from the `order` that a scheme states, by 40, 80 and 160 steps to time one."""
    if scheme.order is None:
        return None
    field, cloud = _field(), weighted_cloud()
    ends = [_walked(scheme, field, cloud, steps, 1 / steps)[1] for steps in (40, 80, 160)]
    rows = [np.append(np.ravel(end.atoms), end.weights) for end in ends]
    return abs(np.log2(np.abs(rows[0] - rows[1]).max() / np.abs(rows[1] - rows[2]).max()) - scheme.order)


@law(Scheme, 1e-13)
def restricted_clouds_stay_on_their_subspace(scheme):
    """With noise on top, on a plane askew to the axes, from a start off it: nothing across, and it moves along."""
    field, clouds = (_field(), weighted_cloud()) if _alone(scheme) else (Apart.examples()[0], _small_players())
    held = restrict(field, Subspace(ByMatrix(jnp.asarray(ASKEW))))
    begun, end = _walked(Langevin(scheme, 0.1), held, clouds, 10, 0.3)
    moved = jax.tree.leaves(map_clouds(lambda a, b: jnp.abs(b.atoms - a.atoms).max(), begun, end))
    require(min(map(float, moved)) > 0.1, "no particle moves.")
    across = np.eye(4) - ASKEW
    return max(float(jnp.abs(cloud.atoms @ across).max()) for cloud in by_name(end).values())


@law(Scheme, 1e-12)
def players_who_do_not_see_each_other_move_as_if_alone(scheme):
    """Those of a game without interaction, each in a domain of its own: beside the other, alone, and as one cloud.

    What is drawn depends on a player's name, so that it is the same alone; one cloud agrees where nothing is drawn. An
    adaptive scheme, whose steps all players share, has a hundred times its own tolerance.
    """
    apart, homes, clouds = Apart.examples()[0], {"x": Sphere(2.0), "y": Box(-0.5, 0.75)}, _small_players()
    own = scheme if _alone(scheme) else Each({"y": scheme.schemes["y"]})
    begun, together = _walked(scheme, restrict(apart, homes), clouds, 3, 0.2)
    alone = _walked(own, restrict(apart, {"y": homes["y"]}), {"y": clouds["y"]}, 3, 0.2)[1]["y"]
    for name, home in homes.items():
        require(off(home.project(together[name].atoms), together[name].atoms) < 1e-13, f"{name} leaves its domain.")
        require(float(jnp.abs(together[name].atoms - begun[name].atoms).max()) > 1e-2, f"{name} does not move.")
    gap = _cloud_gap(together["y"], alone)
    redrawn = _walked(scheme, restrict(apart, homes), clouds, 3, 0.2, 6)[1]
    if _alone(scheme) and max(_cloud_gap(together[name], redrawn[name]) for name in "xy") == 0:
        gap = max(gap, _cloud_gap(together["y"], _walked(scheme, restrict(apart, homes["y"]), clouds["y"], 3, 0.2)[1]))
    return gap / max(1.0, 1e14 * float(getattr(scheme, "rtol", 0.0)))


def _cloud_gap(one: Cloud, other: Cloud) -> float:
    return max(off(one.atoms, other.atoms), off(one.weights, other.weights))
