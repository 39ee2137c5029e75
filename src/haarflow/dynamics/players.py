"""One cloud or several players: what lets every field, scheme and loop treat both alike.

`clouds` is a Cloud, or a mapping {name: Cloud} of players, each with particles and a dimension of its own. Both are
trees of clouds, so whatever is done to one cloud is done to players by `map_clouds`. What is random is keyed by a
player's name (`own_keys`), so that a player draws the same numbers whoever plays beside it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from zlib import crc32

import equinox as eqx
import jax
from jax import ShapeDtypeStruct
from jaxtyping import Array, Int, Key, PRNGKeyArray

from haarflow.doors import door
from haarflow.errors import Refusal
from haarflow.fast.materialise import materialised
from haarflow.measures.clouds import Cloud
from haarflow.values import said

T = TypeVar("T")
Clouds = Cloud | dict[str, Cloud]


def is_cloud(tree: Any) -> bool:
    """Whether a part of a tree is a cloud, which is where `map_clouds` stops to look inside."""
    return isinstance(tree, Cloud)


@door
def map_clouds(function: Callable, clouds: Cloud | Mapping[str, Cloud], *others: Any) -> Any:
    """The function of one cloud, or {name: function of the player's cloud}: how a scheme treats both alike.

    `others` go beside the clouds: anything beside one cloud, mappings by the same names beside players.
    `map_clouds(lambda cloud: Cloud(cloud.atoms.clip(-1, 1), cloud.weights), clouds)` keeps all of them in a cube.
    """
    if isinstance(clouds, Mapping):
        for other in others:
            if not isinstance(other, Mapping) or set(other) != set(clouds):
                got = f"one for {listed(other)}" if isinstance(other, Mapping) else said(other)
                raise Refusal(
                    f"map_clouds takes a mapping by name for the players {listed(clouds)}; got {got}. "
                    "Give both the same names."
                )
    return jax.tree.map(function, clouds, *others, is_leaf=is_cloud)


def by_name(clouds: Any) -> dict[str, Any]:
    """The players by their names; one cloud is a player without a name."""
    return dict(clouds) if isinstance(clouds, Mapping) else {"": clouds}


def listed(names: Any) -> str:
    """Names in a sentence: 'x' and 'y'."""
    *most, last = [repr(name) for name in names] or ["nobody"]
    return f"{', '.join(most)} and {last}" if most else last


def own_keys(key: PRNGKeyArray, clouds: Any) -> Any:
    """A key for each player, which depends on its name and on nobody else; for one cloud, the key itself."""
    if not isinstance(clouds, Mapping):
        return key
    return {name: settled_keys(jax.random.fold_in(key, crc32(name.encode()))) for name in clouds}


def settled_keys(keys: Key[Array, "*k"]) -> Key[Array, "*k"]:
    """The same keys, computed once: without this the compiler would hash them again for every particle."""
    return jax.random.wrap_key_data(materialised(jax.random.key_data(keys)), impl=jax.random.key_impl(keys))


@dataclass(frozen=True)
class Along:
    """Along which axes of an array the particles of which players lie: ((axis, player), ...), or none."""

    axes: tuple[tuple[int, str], ...] = ()


def particle_axes(function: Callable[[Any], Any], clouds: Any) -> Any:
    """For every array that a function makes of clouds, an `Along`: whose particles lie along which of its axes.

    The function is asked, in shapes alone, with one particle more of one player at a time: the axes that grow are that
    player's. So no array needs a mark, and none is mistaken for another of the same shape.
    """
    clouds = jax.tree.map(lambda leaf: ShapeDtypeStruct(leaf.shape, leaf.dtype), clouds)
    leaves, structure = jax.tree.flatten(_shapes(function, clouds))
    found = [Along() for _ in leaves]
    for name, cloud in by_name(clouds).items():
        more = {**clouds, name: _one_more(cloud)} if isinstance(clouds, Mapping) else _one_more(cloud)
        grown = jax.tree.leaves(_shapes(function, more))
        found = [
            Along((*along.axes, *((axis, name) for axis in _grown(before.shape, after.shape))))
            for along, before, after in zip(found, leaves, grown, strict=True)
        ]
    return jax.tree.unflatten(structure, found)


def _shapes(function: Callable, clouds: Any) -> Any:
    try:
        return jax.eval_shape(function, clouds)
    except jax.errors.JAXTypeError:
        raise Refusal(
            "A Scheme's start is compiled by JAX from the arrays of the cloud; got one that looks at their values. "
            "Write it with jax.numpy, without float(...) and if."
        ) from None


def _one_more(cloud: Cloud) -> Cloud:
    """The shapes of a cloud with one particle more."""

    def longer(leaf, axis):
        sizes = list(leaf.shape)
        sizes[axis] += 1
        return ShapeDtypeStruct(tuple(sizes), leaf.dtype)

    parts = (longer(cloud.atoms, -2), longer(cloud.weights, -1))
    return eqx.tree_at(lambda one: (one.atoms, one.weights), cloud, parts)


def _grown(before: tuple[int, ...], after: tuple[int, ...]) -> list[int]:
    return [axis for axis, (old, new) in enumerate(zip(before, after, strict=True)) if new == old + 1]


def taken(tree: T, along: Any, sources: dict[str, Int[Array, "n"]]) -> T:
    """The arrays with the rows of every player exchanged: row i is what row `sources[player][i]` was."""

    def rows(leaf, one: Along):
        for axis, name in one.axes:
            leaf = leaf[(slice(None),) * axis + (sources[name],)]
        return leaf

    return jax.tree.map(rows, tree, along)


@contextmanager
def expecting(owner: str, clouds: Any, instead: str) -> Iterator[None]:
    """A sentence, where code written for one cloud is given players, or code for players is given one cloud."""
    try:
        yield
    except AttributeError as error:
        of_clouds = isinstance(clouds, Mapping) and isinstance(error.obj, Mapping)
        if not of_clouds or error.name not in ("atoms", "weights", *dir(Cloud)):
            raise
        raise Refusal(f"{owner} takes one cloud; got the players {listed(clouds)}. {instead}") from None
    except TypeError as error:
        if not (isinstance(clouds, Cloud) and "'Cloud' object is not subscriptable" in str(error)):
            raise
        raise Refusal(f"{owner} takes players {{name: cloud}}; got one cloud. {instead}") from None
