"""Right calls of how it moves: fields, schemes, and the one loop."""

from dataclasses import replace

from bend import FINE, Arg, array, choice, cloud, count, flag, function, key, method, number, one_of, rep, thing
from entry import Entry, made, of

_WRONG = "hf.Descend(hf.Risk(hf.Dense(3, 2), hf.Sample(wider(xs), ys)))"
_FIELD = thing("field", "risk", "unit", "()", late=(_WRONG,))
_TURN = "hf.flow(field, {}, wide, key=key, dt=0.25, steps=1)"
_FLAT = array("action.fixed_projector()", width=False, rows=False, optional=True).also(
    "np.ones((4, 4))", "5 * np.eye(4)", "np.ones((3, 4))", late=("np.eye(3)",)
)


def _rates(one: Arg) -> Arg:
    """A number, or one for each player: wrong names come out when it is used."""
    ways = tuple(way for way in one.ways if way.source != "dict(a=1)")
    return replace(one, ways=ways).also("{'x': -1.0}", "{'x': 'three'}", late=("{'z': 1.0}", "dict(a=1)"))


_INNER = thing("hf.Euler()", "field", "optax.adam(1.0)")

ENTRIES = [
    *made(
        "Descend",
        "{}(key, wide)",
        functional=thing("risk", "unit", "sample", "lambda cloud: 0.0"),
        transport=number("0.5", least=0),
        growth=number("0.5", least=0, optional=True),
    ),
    Entry("Field.__call__", "hf.Descend(hf.Risk(unit, batches))({*})", {"key": key(), "cloud": cloud("wide")}),
    Entry(
        "Field",
        "hf.flow(OwnField({at}), hf.Euler(), cloud, key=key, dt=0.25, steps=1)",
        {
            "at": method(
                "lambda c: hf.extend.Tangent(-c.atoms)",
                "lambda c: -c.atoms",
                "lambda c: 'three'",
                "lambda c: None",
                "lambda c: hf.extend.Tangent(c.atoms[:, :1])",
                "lambda c: hf.extend.Tangent(c.atoms[:1])",
                "lambda c: hf.extend.Tangent(-c.atoms, c.atoms)",
            )
        },
    ),
    Entry(
        "Scheme",
        "hf.flow(field, OwnScheme({at}), wide, key=key, dt=0.25, steps=1)",
        {
            "at": method(
                "lambda c: hf.Cloud(c.atoms / 2, c.weights)",
                "lambda c: c.atoms",
                "lambda c: 'three'",
                "lambda c: None",
                "lambda c: hf.uniform(c.atoms[:1])",
                "lambda c: hf.uniform(c.atoms[:, :1])",
            )
        },
    ),
    Entry(
        "Tangent",
        "hf.energies.weak_form_rate(cloud, hf.extend.Tangent({*}), square)",
        {"velocity": array("atoms"), "growth": array("masses", width=False, optional=True)},
    ),
    Entry(
        "restrict",
        "hf.restrict({*})(key, wide).velocity",
        {"field": _FIELD, "domain": rep("action", shared=False, matrix=True), "through": choice("'start'")},
    ),
    Entry(
        "restrict",
        "hf.restrict(game, {*})(key, players)",
        {"domain": thing("{'x': hf.Sphere()}", "{'x': 3.0}", "{'z': hf.Sphere()}", "{'x': np.ones((2, 2))}")},
    ),
    *made("Sphere", "{}.project(jnp.asarray(atoms))", radius=number("1.0", above=0)),
    *made(
        "Box",
        "{}.project(jnp.asarray(atoms))",
        low=number("-0.5", below=1, rows=True),
        high=number("1.0", above=-0.5, rows=True),
    ),
    Entry(
        "Domain",
        "hf.flow(hf.restrict(hf.Descend(penalty), OwnDomain({at})), hf.Euler(), cloud, key=key, dt=0.25, steps=1)",
        {"at": method("lambda atoms: atoms", "lambda atoms: atoms[:1]", "lambda atoms: 'three'", "lambda atoms: None")},
    ),
    # games
    *made(
        "DescentAscent",
        "{}(key, players)",
        payoff=thing("payoff", "unit", "risk", "{'x': 3.0}").also(late=("{'x': payoff}", "lambda clouds: 'three'")),
        ascend=one_of("'y'", "3.0", "[3.0]").also(late=("'z'",), same=("['y']", "('y',)")),
        transport=_rates(number("0.5", least=0)),
        growth=_rates(number("0.5", least=0, optional=True)),
    ),
    *made(
        "ExpectedPayoff",
        "{}(players)",
        pair=function("product", "lambda x, y: x", "lambda x, y: 'three'", "lambda x, y: None", "lambda x: 1.0"),
        first=one_of("'x'", "3.0", "'y'").also(late=("'z'",)),
        second=one_of("'y'", "3.0", "'x'").also(late=("'z'",)),
    ),
    Entry(
        "Payoff",
        "hf.games.DescentAscent(OwnPayoff({at}), ascend='y')(key, players)",
        {
            "at": method(
                "lambda c: c['x'].mean() @ c['y'].mean()",
                "lambda c: c['x'].atoms",
                "lambda c: 'three'",
                "lambda c: None",
                "lambda c: c.mean()",
            )
        },
    ),
    Entry("Payoff.variation", "payoff.variation({clouds})", {"clouds": thing("players", "cloud", "{'x': cloud}")}),
    # what a scheme is made of
    Entry(
        "advance",
        "hf.extend.advance({*})",
        {
            "clouds": cloud("cloud").also("players"),
            "tangents": thing(
                "hf.extend.Tangent(jnp.asarray(atoms))", "atoms", "cloud", "hf.extend.Tangent(jnp.asarray(thetas))"
            ),
            "dt": number("0.25"),
        },
    ),
    Entry(
        "advance",
        "hf.extend.advance({*}, dt=0.25)",
        {
            "clouds": thing("players", "{'x': cloud}", "{'x': 3.0, 'y': other}", "cloud"),
            "tangents": thing("game(key, players)", "{'x': 3.0}", "hf.extend.Tangent(jnp.asarray(atoms))"),
        },
    ),
    Entry(
        "map_clouds",
        "hf.extend.map_clouds({function}, {clouds}, {others})",
        {
            "function": function("lambda c, rate: rate * c.mean()"),
            "clouds": thing("players", "{'x': cloud}", "{'x': 3.0, 'y': other}"),
            "others": one_of("{'x': 0.5, 'y': 2.0}", "{'x': 0.5}", "0.5", "{'x': 0.5, 'z': 2.0}"),
        },
    ),
    Entry("streams", "[jax.random.key_data(one) for one in hf.extend.streams({*})]", {"key": key()}),
    # schemes
    Entry("Euler", "hf.Euler().start(wide)", {}),
    Entry("Heun", "hf.Heun().start(wide)", {}),
    Entry("Extragradient", "hf.Extragradient().start(wide)", {}),
    *made(
        "Each",
        "hf.flow(game, {}, players, key=key, dt=0.25, steps=1)",
        schemes=thing("{'x': hf.Euler(), 'y': hf.Heun()}", "{'x': 3.0}", "hf.Euler()", late=("{'x': hf.Euler()}",)),
    ),
    *made("Langevin", _TURN, inner=_INNER, temperature=number("0.5", least=0), projector=_FLAT),
    *made("Optax", _TURN, transformation=thing("optax.sgd(0.5)", "hf.Euler()", "optax.sgd")),
    *made(
        "Adaptive",
        _TURN,
        rtol=number("0.125", above=0),
        atol=number("0.125", above=0),
        most=count("64", huge=FINE),
    ),
    *made(
        "BirthDeath",
        _TURN.replace("(field", "(hf.Descend(risk, growth=0.5)"),
        inner=_INNER,
        prior=function(
            "prior",
            "lambda key, n: jnp.ones((n, 3))",
            "lambda key, n: 'three'",
            "lambda key, n: None",
            "lambda key, n: jnp.ones(n)",
            optional=True,
        ),
        births=flag("True"),
    ),
    # the loop: plain, with all that goes beside it, over several keys, over several lanes, over lists
    of(
        "flow",
        field=_FIELD,
        scheme=thing(
            "hf.Euler()", "optax.adam(1.0)", "field", "()", late=("hf.Langevin(hf.Euler(), 0.5, projector=np.eye(3))",)
        ),
        cloud=cloud("wide"),
        key=key(many=True),
        dt=number("0.25", above=0),
        steps=count("2", least=0),
    ),
    Entry(
        "flow",
        "hf.flow(hf.Descend(penalty), hf.Langevin(hf.Heun(), 0.25), cloud, key=key, dt=0.25, steps=2, {*})",
        {
            "probes": thing(
                "{'size': lambda c: c.second_moment()}",
                "{'size': 3.0}",
                "{'size': 'three'}",
                "[square]",
                "square",
                optional=True,
            ).also(fine=("{'size': lambda c: 'three'}", "{'size': lambda c: None}")),
            "every": count("1", huge=FINE, optional=True),
            "schedule": function(
                "lambda t: jnp.ones_like(t) / 2", "lambda t: 'three'", "lambda t: None", "lambda t: jnp.ones(3)"
            ),
            "progress": one_of("False", "3.0", '"no"', "[silent]", optional=True).also(same=("silent",)),
            "checkpoint": one_of("fresh() / 'a.npz'", "fresh()", "3.0", "fresh() / 'x' / 'a.npz'", optional=True).also(
                same=("str(fresh() / 'a.npz')",)
            ),
            "devices": count("1", optional=True),
        },
    ),
    Entry(
        "flow",
        "hf.flow(hf.Descend(penalty), hf.Euler(), {*}, steps=2)",
        {
            "cloud": cloud("hf.stack_clouds([cloud, cloud])", stack=True, dim=False).also(
                "hf.stack_clouds([cloud, cloud, cloud])"
            ),
            "key": one_of("keys", "key", "7", "jax.random.split(key, 3)", "keys[None]", "1.5").also(
                same=("jax.random.key_data(keys)", "np.asarray(jax.random.key_data(keys))"), fine=("[7, 8]",)
            ),
            "dt": one_of(
                "np.array([0.25, 0.5])",
                "[0.25, 0.5, 0.25]",
                "[0.25, -0.5]",
                "[0.25, 0.0]",
                "[0.25, np.nan]",
                "[[0.25], []]",
            ).also(fine=("0.25", "[0.25]"), same=("[0.25, 0.5]", "jnp.array([0.25, 0.5])")),
        },
    ),
    Entry(
        "flow",
        "hf.flow({field}, {scheme}, {cloud}, key=key, dt=0.25, steps=1)",
        {
            "field": thing(
                "{'a': hf.Descend(penalty), 'b': hf.Descend(penalty, growth=0.5)}",
                "dict()",
                "{'a': hf.Descend(penalty)}",
                "{'a': 3.0, 'b': 4.0}",
                "{'a': field, 'b': 'three'}",
            ),
            "scheme": thing(
                "{'a': hf.Euler(), 'b': hf.Heun()}", "dict()", "{'a': hf.Euler()}", "{'a': hf.Euler(), 'b': 3.0}"
            ),
            "cloud": thing("{'a': cloud, 'b': other}", "dict()", "{'a': cloud}", "{'a': cloud, 'b': 3.0}"),
        },
    ),
    Entry(
        "flow",
        "hf.flow({field}, {scheme}, {cloud}, key=key, dt=0.25, steps=1)",
        {
            "field": thing("game", "payoff", "hf.Descend(penalty)", "OwnField(lambda c: hf.extend.Tangent(c.atoms))"),
            "scheme": thing("hf.Extragradient()", "{'x': hf.Euler()}", "hf.Each({'x': hf.Euler()})"),
            "cloud": thing("players", "dict()", "{'x': cloud}", "{'x': cloud, 'y': 3.0}", "{'x': players, 'y': other}"),
        },
    ),
    Entry(
        "flow",
        "hf.flow({field}, {scheme}, cloud, key=keys, dt=0.25, steps=1)",
        {
            "field": thing(
                "[hf.Descend(hf.Penalty(0.5)), hf.Descend(hf.Penalty(0.25))]",
                "[hf.Descend(penalty)]",
                "[]",
                "[hf.Descend(penalty), 3.0]",
                "[hf.Descend(penalty), field]",
            ),
            "scheme": thing(
                "[hf.Langevin(hf.Euler(), 0.5), hf.Langevin(hf.Euler(), 0.25)]",
                "[]",
                "[hf.Euler(), 3.0]",
                "[hf.Euler()] * 3",
            ),
        },
    ),
    Entry("Trajectory", "hf.flow(hf.Descend(penalty), hf.Euler(), cloud, key=key, dt=0.25, steps=1).steps", {}),
    Entry(
        "Diverged",
        "hf.flow(hf.Descend(hf.Penalty(-1e200)), hf.Euler(), cloud, key=key, dt=1e200, steps=2).stopped",
        {},
    ),
    Entry("Refusal", "hf.Refusal('A rule; got nothing.')", {}),
    Entry(
        "reduce_by_orbits",
        "hf.exact.reduce_by_orbits({*}).cloud",
        {
            "field": thing("hf.Descend(hf.Risk(unit, closed) + penalty)", "risk", "hf.Descend(penalty)", "field"),
            "cloud": cloud("whole").also("wide"),
            "on_x": rep("swap", finite=True),
            "on_y": rep("swap", finite=True),
        },
    ),
    of(
        "gaussian",
        key=key(),
        shape=one_of(
            "(2, 3)",
            '"three"',
            "(2,)",
            "3",
            "(2, 3, 4)",
            "(-1, 3)",
            "(2.5, 3)",
            "('a', 'b')",
            "(10**18, 3)",
            "(2, None)",
        ).also(same=("[2, 3]", "np.array([2, 3])", "(np.int64(2), 3)")),
        dtype=one_of("jnp.float64", '"three"', "int", "complex", "bool", "3.0", optional=True).also(
            fine=("jnp.float32", "float"), same=('"float64"', "np.float64", "np.dtype(float)")
        ),
        first=count("1", least=0),
    ),
]
