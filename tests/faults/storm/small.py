"""The small right things that the calls of the storm are made of, each as a line of source.

Everything is text, so that a fault is reported as code that runs by itself. Numbers are sums of few powers of two:
float32 holds them exactly, and a change of type is a change of nothing else.
"""

import ast
from functools import cache

IMPORTS = """\
import jax
jax.config.update("jax_enable_x64", True)
import equinox as eqx, jax.numpy as jnp, numpy as np, optax, pathlib, tempfile
import haarflow as hf
"""

SMALL: dict[str, str] = {
    # keys
    "key": "jax.random.key(7)",
    "keys": "jax.random.split(jax.random.key(7), 2)",
    # clouds in the plane, one with equal weights and one without
    "atoms": "np.array([[0.5, -1.0], [1.5, 0.25], [-0.75, 2.0], [0.0, -0.5]])",
    "cloud": "hf.uniform(atoms)",
    "other": "hf.Cloud(np.array([[1.0, 0.5], [-0.5, 0.25], [0.25, -1.0]]), np.array([0.5, 0.25, 0.25]))",
    # a group of two elements, how it acts, and the circle
    "group": "hf.Cyclic(2)",
    "swap": "hf.natural_rep(hf.Cyclic(2))",
    "still": "hf.trivial_rep(hf.Cyclic(2), 2)",
    "circle": "hf.SpecialOrthogonal(2)",
    "quarters": "hf.SpecialOrthogonal(2).grid(4)",
    # a unit with four parameters, its action, clouds of its particles
    "unit": "hf.Dense(2, 2, 'tanh')",
    "action": "unit.action(swap, swap)",
    "thetas": "np.array([[1.0, 0.5, -0.25, 0.75], [0.5, -0.5, 1.0, 0.0], [-1.0, 0.25, 0.5, -0.5]])",
    "wide": "hf.uniform(thetas)",
    "whole": "wide.orbit(action)",
    "single": "hf.Perceptron(2, 1, 'tanh')",
    "particles": "hf.uniform(thetas)",
    # data and what is minimised
    "xs": "np.array([[0.5, -1.0], [1.0, 0.25], [-0.5, 0.75]])",
    "ys": "np.array([[0.25, 0.5], [-0.5, 1.0], [0.75, -0.25]])",
    "labels": "np.array([0.25, -0.5, 0.75])",
    "sample": "hf.Sample(xs, ys)",
    "closed": "hf.orbit_closure(sample, swap, swap)",
    "batches": "hf.Sample(xs, ys, size=2)",
    "risk": "hf.Risk(unit, sample)",
    "field": "hf.Descend(risk)",
    "penalty": "hf.Penalty(0.5)",
    "model": "hf.Residual((hf.Dense(2, 2, 'tanh'), hf.Dense(2, 2, 'tanh')))",
    "deep": "hf.uniform(np.concatenate([thetas, -thetas], axis=1))",
    "gram": "np.array([[2.0, 0.5, 0.25], [0.5, 1.0, 0.0], [0.25, 0.0, 1.5]])",
    # particles (a, w) of ReLU units
    "teacher": "hf.uniform(np.array([[1.0, 0.5, -0.75], [-0.5, 1.0, 0.25]]))",
    "students": "hf.uniform(np.array([[0.5, 1.0, 0.5], [1.0, -0.25, 0.5], [-0.25, 0.5, 1.0]]))",
    # laws on a line
    "grid": "hf.grids.Grid(-3.0, 3.0, 16)",
    "law": "hf.grids.Grid(-3.0, 3.0, 16).normal(0.5, 1.0)",
    "well": "hf.Penalty(1.0)",
    "masses": "np.array([0.25, 0.5, 0.125, 0.125])",
    "quantiles": "np.array([-1.0, -0.25, 0.5, 1.5])",
    # matrices and times of the flows whose end is known
    "moments": "np.array([[1.0, 0.25], [0.25, 0.5]])",
    "goal": "np.array([[0.5, 0.0], [0.0, 0.25]])",
    "times": "np.array([0.0, 0.25, 0.5])",
    "bowl": "hf.exact.QuadraticEnergy(moments, np.array([0.25, -0.5]), goal)",
    "features": "np.array([[1.0, 0.5, -0.25], [0.5, -0.5, 1.0], [-1.0, 0.25, 0.5], [0.25, 1.0, 0.0]])",
    # what a discovery finds
    "basis": "np.array([[0.5, 0.5], [0.5, -0.5], [0.5, -0.5], [0.5, 0.5]])",
    "found": "hf.practice.Discovery(basis, [], 'it is the whole space')",
    "pattern": "hf.practice.sharing(basis)",
    # the four schemes side by side
    "four": "hf.practice.four_schemes(unit, sample, swap, swap)",
    # functions
    "square": "lambda theta: jnp.sum(theta**2)",
    "ridge": "lambda theta, x: jnp.tanh(theta @ x)[None]",
    "moves_as_inputs": "lambda on_x, on_y: on_x",
    "law_of_pairs": "lambda key, size: (jax.random.normal(key, (size, 2)), jnp.ones((size, 2)))",
    "prior": "lambda key, n: jax.random.normal(key, (n, 4))",
    "silent": "lambda *_: None",
    # files
    "fresh": "lambda: pathlib.Path(tempfile.mkdtemp())",
    "folder": "fresh()",
    "table_of_numbers": "(folder / 'n.csv').write_text('1,2,3\\n4,5,6\\n') and folder / 'n.csv'",
    # two players and their game
    "players": "{'x': cloud, 'y': other}",
    "product": "lambda x, y: x @ y",
    "payoff": "hf.games.ExpectedPayoff(product)",
    "game": "hf.games.DescentAscent(payoff, ascend='y', growth=0.5)",
    "contest": "hf.restrict(hf.games.DescentAscent(hf.games.QuadraticPayoff(xx=moments, xy=goal), ascend='y'), "
    "hf.Sphere())",
    "strategies": "contest.begin(players)",
    "recorded_path": "hf.flow(game, hf.Euler(), players, key=key, dt=0.25, steps=2, every=1, "
    "probes={'laws': hf.games.snapshot})",
    "saved": "hf.Fitted(unit, wide).save(folder / 'f.npz') or wide.save(folder / 'c.npz') or folder",
    "finished": "__import__('haarflow.runs.ledger', fromlist=['x']).write_record("
    "folder, dict(experiment='toy', seed=0, config={}, numbers={}, verdicts={}, axes={}, fits={}), {}, {}).path",
    # members of a user's own, whose one method is given
    "OwnField": "class OwnField(hf.extend.Field):\n    at: object\n"
    "    def __call__(self, key, cloud): return self.at(cloud)\n"
    "    @classmethod\n    def examples(cls): return []",
    "OwnScheme": "class OwnScheme(hf.extend.Scheme):\n    at: object\n"
    "    def step(self, key, field, cloud, state, dt): return self.at(cloud), state\n"
    "    @classmethod\n    def examples(cls): return []",
    "OwnPayoff": "class OwnPayoff(hf.games.Payoff):\n    at: object\n"
    "    def __call__(self, clouds): return self.at(clouds)\n"
    "    @classmethod\n    def examples(cls): return []",
    "OwnDomain": "class OwnDomain(hf.extend.Domain):\n    at: object\n"
    "    def project(self, atoms): return self.at(atoms)\n"
    "    def along(self, atoms, velocity): return velocity\n    @classmethod\n    def examples(cls): return []",
    "OwnFunctional": "class OwnFunctional(hf.extend.Functional):\n    at: object\n    def __call__(self, cloud): "
    "return self.at(cloud)\n    @classmethod\n    def examples(cls): return []",
    "OwnData": "class OwnData(hf.extend.Data):\n    at: object\n    def batch(self, key): return self.at(key)\n"
    "    @classmethod\n    def examples(cls): return []",
    "OwnEnergy": "class OwnEnergy(hf.grids.InternalEnergy):\n    at: object\n    def density(self, ratio): return "
    "self.at(ratio)\n    @classmethod\n    def examples(cls): return []",
    "OwnLoss": "class OwnLoss(hf.losses.Loss):\n    at: object\n"
    "    def __call__(self, f, y): return self.at(f, y)\n"
    "    @classmethod\n    def examples(cls): return []",
    "OwnMetric": "class OwnMetric(hf.losses.Metric):\n    at: object\n    def __call__(self, outputs, ys): "
    "return self.at(outputs, ys)\n    @classmethod\n    def examples(cls): return []",
    "OwnNetwork": "class OwnNetwork(hf.extend.Network):\n    at: object\n    dim = 4\n    inputs = outputs = 2\n"
    "    def __call__(self, cloud, xs): return self.at(cloud, xs)\n"
    "    @classmethod\n    def examples(cls): return []",
    # what is done to a right value to bend it
    "holed": "lambda a: np.where(np.arange(np.size(a)).reshape(np.shape(a)) == 0, np.nan, np.asarray(a, float))",
    "opened": "lambda a: np.where(np.arange(np.size(a)).reshape(np.shape(a)) == 0, np.inf, np.asarray(a, float))",
    "wider": "lambda a: np.concatenate([np.asarray(a), np.asarray(a)[..., :1]], axis=-1)",
    "narrower": "lambda a: np.asarray(a)[..., :-1]",
    "longer": "lambda a: np.concatenate([np.asarray(a), np.asarray(a)[:1]], axis=0)",
    "shorter": "lambda a: np.asarray(a)[:-1]",
    "thin": "lambda a: np.asarray(a)[..., : int(np.shape(a)[-1] > 1)]",
    "lone": "lambda a: np.asarray(a)[: int(len(a) > 1)]",
    "frozen": "lambda a: np.frombuffer(np.asarray(a).tobytes(), np.asarray(a).dtype).reshape(np.shape(a))",
    "float32": "lambda c: hf.Cloud(jnp.asarray(c.atoms, jnp.float32), jnp.asarray(c.weights, jnp.float32))",
    "compiled": "lambda function, value: jax.make_jaxpr(lambda x: (function(x), 0.0)[1])(value)",
    "lifted": "lambda c: hf.Cloud(wider(c.atoms), c.weights)",
}


@cache
def names_in(source: str) -> frozenset[str]:
    """The small things that a source speaks of."""
    found = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    return frozenset(found & set(SMALL))


def needed(source: str) -> list[str]:
    """The names that must be there before a source can run, in the order of their making."""
    todo, found = list(names_in(source)), set()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += names_in(SMALL[name])
    order: list[str] = []

    def visit(name):
        for inner in sorted(names_in(SMALL[name]) - {name}):
            visit(inner)
        if name not in order:
            order.append(name)

    for name in sorted(found):
        visit(name)
    return order


def written(name: str) -> str:
    """The statement that makes a small thing."""
    source = SMALL[name]
    return source if source.startswith("class ") else f"{name} = {source}"


def script(source: str) -> str:
    """A call as a program that runs by itself."""
    return IMPORTS + "".join(f"{written(name)}\n" for name in needed(source)) + f"print({source})"


class Things(dict):
    """The namespace in which sources are evaluated; small things are made when they are first needed."""

    def __init__(self):
        exec(IMPORTS, self)

    def value(self, source: str):
        """What a source evaluates to."""
        for name in needed(source):
            if name not in self:
                exec(written(name), self)
        return eval(source, self)
