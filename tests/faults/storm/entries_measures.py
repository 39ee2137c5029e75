"""Right calls of what flows: clouds, and the distances between them."""

from bend import FINE, array, cloud, count, flag, function, key, number, one_of, rep
from entry import Entry, of

_TWO = {"mu": cloud("cloud"), "nu": cloud("other")}
UNDER = one_of("swap", "group", "3.0", "swap + swap", "atoms", "[swap]", '"swap"', optional=True)
_PATIENT = {"force": flag("False"), "progress": function("silent", optional=True)}
_ACTED = {"mu": cloud("cloud"), "rep": rep("swap", finite=True, shared=False)}
_FIXED = {"mu": cloud("cloud", stack=True), "rep": rep("swap", shared=False, matrix=True)}
_ELEMENTS = array("group.elements()", rows=False, whole=True, optional=True).also("np.ones((2, 2, 2))")

_KERNEL = {
    "width": number("1.0", above=0, optional=True),
    "block": count("512", huge=FINE),
    "force": flag("False"),
}

ENTRIES = [
    of("Cloud", atoms=array("atoms", width=False), weights=array("masses").also("-masses", "2 * masses")),
    of("uniform", atoms=array("atoms", width=False, rows=False, lead=True)),
    of(
        "stack_clouds",
        clouds=one_of("[cloud, cloud]", "cloud", "[]", "[cloud, other]", "[cloud, 3.0]", "[atoms, atoms]"),
    ),
    Entry(
        "Cloud.push",
        "cloud.push({*})",
        {
            "map": array("np.array([[0.5, 1.0], [0.0, 2.0]])", rows=False).also(
                "lambda z: 'three'",
                "lambda z: None",
                "lambda z: z * np.nan",
                same=("lambda z: jnp.array([[0.5, 1.0], [0.0, 2.0]]) @ z",),
            )
        },
    ),
    Entry("Cloud.orbit", "cloud.orbit({*})", {"rep": rep("swap", finite=True, shared=False)}),
    Entry(
        "Cloud.orbit", "cloud.orbit({*})", {"rep": rep("hf.natural_rep(group)", shared=False), "elements": _ELEMENTS}
    ),
    Entry("Cloud.project", "cloud.project({*})", {"rep": rep("swap", shared=False, matrix=True)}),
    Entry("Cloud.resample", "other.resample({*})", {"key": key(), "n": count("3")}),
    Entry(
        "Cloud.save", "cloud.save({*})", {"path": one_of("folder / 'a.npz'", '"/nowhere/a.npz"', '"/"', '""', "3.0")}
    ),
    Entry(
        "Cloud.load",
        "hf.Cloud.load({*})",
        {"path": one_of("saved / 'c.npz'", "saved / 'f.npz'", "table_of_numbers", '"/nowhere"', '"/"', '""', "3.0")},
    ),
    Entry("Cloud.mean", "other.mean()", {}),
    Entry("Cloud.second_moment", "other.second_moment()", {}),
    of("w1", **_TWO, **_PATIENT),
    Entry("w1", "hf.distances.w1(cloud, other, {*})", {"under": UNDER}),
    of("w2", **_TWO, **_PATIENT),
    Entry("w2", "hf.distances.w2(cloud, other, {*})", {"under": UNDER}),
    of("rmd", **_TWO, **_PATIENT),
    Entry("rmd", "hf.distances.rmd(cloud, other, {*})", {"under": UNDER}),
    of("sinkhorn", **_TWO, blur=number("0.5", above=0), iterations=count("500", huge=FINE), force=flag("False")),
    of("sliced", key=key(), **_TWO, order=count("2", most=2), projections=count("4")),
    of("mmd_squared", **_TWO, **_KERNEL),
    Entry("mmd_squared", "hf.distances.mmd_squared(cloud, other, {*})", {"under": UNDER}),
    Entry("sinkhorn", "hf.distances.sinkhorn(cloud, other, {*})", {"under": UNDER}),
    of("w2_bounds", key=key(), **_TWO, projections=count("4"), rounds=count("1", least=0)),
    of("si_distance", **_FIXED),
    of("si_rmd", **_FIXED),
    of("wi_distance", **_ACTED, **_PATIENT),
    Entry("wi_distance", "hf.distances.wi_distance(cloud, swap, {*})", {"elements": _ELEMENTS}),
    of("wi_rmd", **_ACTED, **_PATIENT),
    Entry("wi_rmd", "hf.distances.wi_rmd(cloud, swap, {*})", {"elements": _ELEMENTS}),
    of(
        "wi_bounds",
        key=key(),
        **_ACTED,
        projections=count("4"),
        rounds=count("1", least=0),
        pairs=flag("True"),
        force=flag("False"),
    ),
    Entry(
        "wi_bounds",
        "hf.distances.wi_bounds(key, cloud, swap, {*})",
        {"elements": _ELEMENTS, "rounds": count("1", least=0)},
    ),
    of("orbit_mmd_squared", **_ACTED, **_KERNEL),
    Entry("orbit_mmd_squared", "hf.distances.orbit_mmd_squared(cloud, swap, {*})", {"elements": _ELEMENTS}),
    of(
        "circle_correction",
        mu=cloud("cloud"),
        rep=rep("hf.natural_rep(circle)", shared=False).also("swap", "np.ones((2, 2))", "holed(np.zeros((2, 2)))"),
        n=count("8", huge=FINE),
    ),
    Entry("Bounds", "hf.distances.w2_bounds(key, cloud, other).lower", {}),
]
