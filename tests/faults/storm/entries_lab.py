"""Right calls of what one watches."""

from bend import FINE, cloud, count, function, key, number, one_of, rep, thing
from entry import Entry

_PROBES = one_of("{'size': lambda c: c.second_moment()}", "3.0", "[square]", "square", "{'size': 3.0}", optional=True)

ENTRIES = [
    Entry(
        "watch",
        "hf.watch({*}).watched.clouds",
        {
            "field": thing("hf.Descend(penalty)", "penalty", "unit", "()"),
            "scheme": thing("hf.Euler()", "optax.adam(1.0)", "field", "()"),
            "cloud": cloud("wide", dim=False),
            "key": key(),
            "dt": number("0.25", above=0),
            "steps": count("2", least=0, huge=FINE),
            "every": count("1", huge=FINE),
            "probes": _PROBES,
            "schedule": function(
                "lambda t: jnp.ones_like(t) / 2", "lambda t: 'three'", "lambda t: None", "lambda t: jnp.ones(3)"
            ),
            "rep": rep("action", shared=False, optional=True),
            "dimensions": count("2", most=3),
        },
    ),
]
