"""Right calls of divergences, in variational form and under a group."""

from bend import FINE, choice, cloud, count, function, key, number, one_of, rep, thing
from entries_measures import UNDER
from entry import Entry, of

_TWO = {"mu": cloud("cloud"), "nu": cloud("other")}
_LISTED = one_of(
    "hf.natural_rep(circle).action(quarters)",
    "circle",
    "quarters",
    "unit.action(swap, swap).action()",
    "hf.distances.Isometries([lambda x: x, lambda x: 2 * x])",
    "hf.distances.Isometries([lambda x: x, lambda x: x + 1])",
    "hf.distances.Isometries([lambda x: x, lambda x: x[:1]])",
    "hf.distances.Isometries([lambda x: x, lambda x: 'three'])",
    optional=True,
)
_WITHIN = thing("hf.divergences.Lipschitz(0.5)", "hf.divergences.Lipschitz", "swap")
_IF_WITHIN = thing("hf.divergences.Lipschitz(0.5)", "hf.divergences.Lipschitz", "swap", optional=True)
_MIXED = "hf.divergences.f_divergence(cloud, other, within=hf.divergences.Lipschitz()"
_KERNEL = "lambda z, w: z @ w.T"

ENTRIES = [
    Entry(
        "Shifts",
        "hf.distances.w1(cloud, other, under=hf.distances.Shifts({steps}, period={period}))",
        {"steps": count("3", huge=FINE), "period": number("2.0", above=0)},
    ),
    Entry(
        "Isometries",
        "hf.distances.w2(cloud, other, under=hf.distances.Isometries({maps}, period={period}))",
        {
            "maps": one_of(
                "[lambda x: x, lambda x: -x]", "[]", "lambda x: x", "[lambda x: -x]", "[lambda x: x, lambda x: x**2]"
            ),
            "period": number("1.0", above=0, optional=True),
        },
    ),
    Entry("w1", "hf.distances.w1(cloud, other, {*})", {"under": _LISTED}),
    of(
        "quotient_bounds",
        key=key(),
        **_TWO,
        under=rep("swap", shared=False),
        order=count("1", most=2),
        elements=count("8", huge=FINE),
    ),
    Entry(
        "quotient_bounds",
        "hf.distances.quotient_bounds(key, cloud, other, {*}).upper",
        {"under": rep("hf.natural_rep(circle)", shared=False), "elements": count("8", huge=FINE)},
    ),
    of(
        "mmd_squared_draws",
        key=key(),
        **_TWO,
        under=rep("hf.natural_rep(circle)", shared=False),
        width=number("1.0", above=0, optional=True),
        elements=count("4", least=2),
        block=count("512", huge=FINE),
    ),
    Entry("Estimate", "hf.distances.mmd_squared_draws(key, cloud, other, under=swap).value", {}),
    Entry(
        "Lipschitz",
        "hf.divergences.ipm(cloud, other, within=hf.divergences.Lipschitz({constant})).value",
        {"constant": number("0.5", above=0)},
    ),
    Entry(
        "KernelBall",
        "hf.divergences.ipm(cloud, other, under=swap, within=hf.divergences.KernelBall({*})).value",
        {
            "kernel": function(
                _KERNEL,
                "lambda z, w: z",
                "lambda z, w: 'three'",
                "lambda z, w: z @ w.T + z[:, :1]",
                "lambda z, w: -z @ w.T",
                "lambda z, w: z[:, :1] * w[:, 0]",
                optional=True,
            ),
            "radius": number("1.0", above=0),
        },
    ),
    Entry(
        "KernelBall",
        "hf.divergences.ipm(cloud, other, within=hf.divergences.KernelBall({*})).value",
        {"width": number("1.0", above=0, optional=True)},
    ),
    Entry(
        "Features",
        "hf.divergences.ipm(cloud, other, within=hf.divergences.Features({*})).value",
        {
            "function": function("np.sin", "lambda z: z[:1]", "lambda z: 'three'", "lambda z: z[:, 0]"),
            "radius": number("1.0", above=0),
        },
    ),
    Entry("ipm", "hf.divergences.ipm({*}).value", {**_TWO, "within": _WITHIN, "under": UNDER}),
    Entry(
        "f_divergence",
        "hf.divergences.f_divergence({*}).value",
        {**_TWO, "f": choice('"kl"'), "alpha": number("2.0", above=0), "within": _IF_WITHIN, "under": UNDER},
    ),
    Entry(
        "f_divergence",
        f'{_MIXED}, f="alpha", {{*}}).value',
        {"alpha": number("3.0", above=0).also("1.0")},
    ),
    Entry(
        "lip_alpha",
        "hf.divergences.lip_alpha({*}).value",
        {**_TWO, "alpha": number("2.0", above=1), "lipschitz": number("0.5", above=0), "under": UNDER},
    ),
    Entry("Divergence", "hf.divergences.lip_alpha(cloud, other).value", {}),
    Entry(
        "Divergence.witness",
        "hf.divergences.lip_alpha(cloud, other).witness({z})",
        {"z": one_of("xs", "np.ones(2)", "np.ones((2, 3))", '"three"', "3.0")},
    ),
    Entry(
        "neural_divergence",
        "hf.divergences.neural_divergence({*}).value",
        {
            "key": key(),
            "mu": cloud("cloud"),
            "nu": cloud("cloud"),
            "f": choice('"js"'),
            "alpha": number("2.0", above=0),
            "under": rep("swap", finite=True, shared=False, optional=True),
            "lipschitz": number("1.0", above=0, optional=True),
            "penalty": number("1.0", least=0),
            "neurons": count("2"),
            "steps": count("2"),
            "rate": number("0.25", above=0),
        },
    ),
    Entry("NeuralDivergence", "hf.divergences.neural_divergence(key, cloud, cloud, neurons=2, steps=2).value", {}),
]
