"""Many fields or schemes that differ in their numbers only, as one: what they share once, what differs stacked."""

from collections.abc import Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from haarflow.errors import Refusal

T = TypeVar("T")


class Stacked(eqx.Module):
    """A number or array of which each run has its own, along the first axis."""

    values: Any


def stacked(owner: str, members: Sequence[T]) -> T:
    """The members as one of them, with Stacked arrays where they differ."""
    trees = [jax.tree.flatten(member) for member in members]
    if any(structure != trees[0][1] for _, structure in trees):
        raise Refusal(_sentence(owner, "kinds or choices", members))
    merged = [_merged(owner, leaves) for leaves in zip(*(leaves for leaves, _ in trees), strict=True)]
    return jax.tree.unflatten(trees[0][1], merged)


def _merged(owner: str, leaves: tuple) -> Any:
    first = leaves[0]
    if all(leaf is first for leaf in leaves):
        return first
    if not all(eqx.is_array(leaf) for leaf in leaves):
        if all(leaf == first for leaf in leaves):
            return first
        raise Refusal(_sentence(owner, "functions", leaves))
    if len({(leaf.shape, leaf.dtype) for leaf in leaves}) != 1:
        raise Refusal(_sentence(owner, "shapes", [leaf.shape for leaf in leaves]))
    if _plain(first) and all(np.array_equal(leaf, first) for leaf in leaves):
        return first
    return Stacked(jnp.stack(leaves))


def _plain(leaf) -> bool:
    return not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _sentence(owner: str, what: str, got: Sequence[Any]) -> str:
    names = ", ".join(dict.fromkeys(getattr(one, "__qualname__", None) or _short(one) for one in got))
    return (
        f"{owner} that run in one program differ in numbers only; got different {what}: {names}. "
        "Give them names as lanes, {name: field}, or flow them one by one."
    )


def _short(one: Any) -> str:
    return str(one) if isinstance(one, tuple) else type(one).__name__


def _is_stacked(leaf: Any) -> bool:
    return isinstance(leaf, Stacked)


def apart(tree: T) -> tuple[T, T]:
    """The stacked arrays of a tree, ready for vmap, and all the rest."""
    own, shared = eqx.partition(tree, _is_stacked, is_leaf=_is_stacked)
    return jax.tree.map(lambda leaf: leaf.values, own, is_leaf=_is_stacked), shared


def together(own: T, shared: T) -> T:
    """One run's tree: its own numbers among what all share."""
    return eqx.combine(own, shared)
