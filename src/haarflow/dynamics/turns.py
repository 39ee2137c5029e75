"""Players who move in turns: several steps of one for each step of another, as in the training of GANs."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax

from haarflow.doors import Count, door
from haarflow.dynamics.players import listed
from haarflow.dynamics.schemes import Each, Euler, Heun, Scheme, View
from haarflow.errors import Refusal


def _pairs(times: Any) -> tuple[tuple[str, int], ...]:
    """Names and numbers as a constant of compiled programs."""
    return tuple(sorted(dict(times).items()))


@door
class Turns(Scheme):
    """The players step one after another, in the order of `schemes`, each `times` times: once where nothing is said.

    `Turns({"y": Euler(), "x": Euler()}, times={"y": 5})` is one step of x for five of y. Each sees where the others are
    by then; every step has data and noise of its own. `Each` lets all step at once, on the same data.
    """

    schemes: Mapping[str, Scheme]
    times: Mapping[str, Count] = eqx.field(default=(), converter=_pairs, static=True, kw_only=True)  # pyright: ignore

    def __check_init__(self):
        strangers = [name for name in dict(self.times) if name not in self.schemes]
        if strangers:
            raise Refusal(
                f"Turns says how many times players step; got times for {listed(strangers)}, beside schemes for "
                f"{listed(self.schemes)}. Give both the same names."
            )

    def start(self, clouds):
        return Each(self.schemes).start(clouds)

    def step(self, key, field, clouds, state, dt):
        Each(self.schemes).refuse_unless_named(clouds)
        for i, (name, scheme) in enumerate(self.schemes.items()):
            turns = jax.random.fold_in(key, i)

            def once(j, carry, name=name, scheme=scheme, turns=turns, everyone=clouds) -> Any:
                cloud, memory = carry
                view = View(field, {**everyone, name: cloud})
                after, memory = scheme.step(jax.random.fold_in(turns, j), view, {name: cloud}, memory, dt)
                return _typed((after[name], memory), carry)

            begin, times = (clouds[name], state[name]), dict(self.times).get(name, 1)
            cloud, memory = once(0, begin) if times == 1 else jax.lax.fori_loop(0, times, once, begin)
            clouds, state = {**clouds, name: cloud}, {**state, name: memory}
        return clouds, state

    @classmethod
    def examples(cls):
        return [cls({"x": Heun(), "y": Euler()}), cls({"y": Euler(), "x": Euler()})]


def _typed(new: Any, old: Any) -> Any:
    """The same numbers in the precision that they had."""
    return jax.tree.map(lambda a, b: jax.numpy.asarray(a, b.dtype), new, old)
