"""Right calls of what flows are compared with: laws on grids, limits, oracles, proximal steps, reduced laws."""

from bend import FINE, LATE, array, cloud, count, function, method, number, thing
from entry import Entry, made, of

_RISK = thing("risk", "penalty", "unit", "hf.Risk(unit, sample, 'square')", "hf.Risk(unit, batches)")
_WELL = thing("well", "unit", "risk", "field").also(fine=("lambda cloud: 0.0",))
_OTHER_GRIDS = (
    "hf.grids.Grid(-3.0, 3.0, 17)",
    "hf.grids.Grid((-3, -3), (3, 3), (4, 4))",
    "hf.grids.Grid(-1.0, 1.0, 16)",
)
_GRID = thing("grid", "cloud", "(-3.0, 3.0, 16)", *_OTHER_GRIDS)
_LAW = cloud("law").also("cloud", "hf.grids.Grid(-3.0, 3.0, 17).normal(0.0, 1.0)")
_WARM = number("0.5", above=0)
_COOL = number("0.5", least=0)
_MILD = number("0.5", least=0, optional=True)
_TIMES = array("times", width=False, rows=False).also("-times", "times[::-1]")
_ANY_TIMES = array("times", width=False, rows=False, empty=FINE)
_MOMENTS = array("moments").also("-moments", "moments + np.triu(moments)")
_FORM = array("goal").also("goal + np.triu(moments)")
_FORM_ALONE = array("goal", width=False, rows=False).also(
    "goal + np.triu(moments)", "np.ones((2, 3))", late=("np.eye(3)",)
)
_SIDES = {"start": _MOMENTS, "target": _FORM}
_ANY = {"functional": thing("risk", "unit", "sample", "field"), "cloud": cloud("wide")}
_ROUGH = number("0.125", above=0, optional=True)
_SPHERE = count("5", least=3, huge=FINE, optional=True)
_ONE = function("square", "lambda z: z", "lambda z: 'three'", "lambda z: None")
_ORDERED = array("quantiles", width=False, rows=False).also("quantiles[::-1]")
_SHARES = array("masses").also("-masses")
_NO_ENERGIES = ("penalty", "well", "hf.grids.ChiSquared(hf.grids.Grid(0.0, 1.0, 16).normal(0.5, 0.25))")
_DENSE = thing("hf.grids.PorousMedium(2.0)", *_NO_ENERGIES)
_STRONG = {"strength": number("0.5", least=0), "reference": cloud("law", dim=False, optional=True)}
_PAID = "hf.grids.free_energy(well, grid, law, internal={})"

ENTRIES = [
    # laws on grids
    *made(
        "Grid",
        "{}.centres",
        low=number("-3.0", below=3, rows=True),
        high=number("3.0", above=-3, rows=True),
        cells=count("16", least=2, huge=LATE, rows=True),
    ),
    Entry("Grid.edges", "grid.edges({*})", {"axis": count("0", least=-1, most=0)}),
    Entry(
        "Grid.law",
        "grid.law({*})",
        {"masses": array("np.arange(16.0)", lead=True, whole=True).also("np.zeros(16)", "-np.ones(16)")},
    ),
    Entry("Grid.normal", "grid.normal({*})", {"mean": number("0.5"), "deviation": number("1.0", above=0)}),
    of("entropy", weights=array("masses", width=False, rows=False, empty=FINE).also("-masses"), volume=_WARM),
    of("relative_entropy", weights=_SHARES, others=array("masses[::-1]").also("-masses")),
    of("free_energy", functional=_WELL, grid=_GRID, cloud=_LAW, temperature=_COOL),
    of("local_gibbs", functional=_WELL, cloud=cloud("law", dim=False), temperature=_WARM),
    Entry(
        "gibbs",
        "hf.grids.gibbs({*}).cloud",
        {
            "functional": _WELL,
            "grid": thing("grid", "cloud", "(-3.0, 3.0, 16)"),
            "temperature": _WARM,
            "tolerance": number("1e-8", least=0, optional=True),
            "damping": number("0.5", above=0, most=1, optional=True),
            "most": count("100", least=0, huge=FINE),
            "start": cloud("law", dim=False, optional=True),
        },
    ),
    Entry("Gibbs", "hf.grids.gibbs(well, grid, temperature=0.5).free_energy", {}),
    of(
        "fokker_planck",
        functional=_WELL,
        grid=_GRID,
        cloud=_LAW,
        temperature=_COOL,
        dt=number("0.25", above=0),
        steps=count("2", least=0),
        every=count("1", huge=FINE, optional=True),
    ),
    # internal energies
    *made("PorousMedium", _PAID, m=number("2.0", above=1), **_STRONG),
    *made("ChiSquared", _PAID, reference=cloud("law", dim=False), strength=number("0.5", least=0)),
    *made(
        "ConvexEnergy",
        _PAID,
        function=function("lambda r: r**2", "lambda r: -r", "lambda r: 'three'", "lambda r: None", "jnp.sum"),
        **_STRONG,
    ),
    Entry(
        "InternalEnergy",
        "hf.grids.free_energy(well, grid, law, internal=OwnEnergy({at}))",
        {"at": method("lambda r: r**2", "lambda r: -(r**2)", "lambda r: 'three'", "lambda r: None", "jnp.sum")},
    ),
    Entry("free_energy", "hf.grids.free_energy(well, grid, law, {*})", {"internal": _DENSE}),
    Entry("gibbs", "hf.grids.gibbs(well, grid, {*}).cloud", {"internal": _DENSE}),
    Entry("fokker_planck", "hf.grids.fokker_planck(well, grid, law, dt=0.25, steps=2, {*})", {"internal": _DENSE}),
    Entry("quantile_energy", "hf.grids.quantile_energy(well, quantiles, {*})", {"internal": _DENSE}),
    Entry("quantile_step", "hf.grids.quantile_step(well, quantiles, tau=0.5, {*})", {"internal": _DENSE}),
    Entry(
        "mirror_step",
        "hf.grids.mirror_step(well, law, tau=0.5, {*})",
        {"internal": thing("hf.grids.PorousMedium(2.0)", *_NO_ENERGIES, optional=True), "grid": _GRID},
    ),
    Entry("GridPath", "hf.grids.fokker_planck(well, grid, law, temperature=0.5, dt=0.25, steps=1).mass_error", {}),
    of(
        "relaxation_rate",
        functional=_WELL,
        grid=_GRID,
        cloud=cloud("hf.grids.gibbs(well, grid, temperature=0.5).cloud").also("law"),
        temperature=_WARM,
    ),
    # limits
    *made(
        "Pairwise",
        "{}(cloud)",
        one_body=_ONE,
        pair=function("lambda a, b: a @ b", "lambda a, b: a", "lambda a, b: 'three'", "lambda a, b: None"),
        constant=number("0.5"),
    ),
    Entry("Pairwise.sums", "hf.energies.pairwise(risk).sums({*})", {"cloud": cloud("wide")}),
    Entry("Pairwise.at", "hf.energies.pairwise(risk).at({*})", {"theta": array("thetas[0]"), "cloud": cloud("wide")}),
    Entry("pairwise", "hf.energies.pairwise({*})(wide)", {"risk": _RISK}),
    of("dissipation", **_ANY, transport=_COOL, growth=_COOL),
    of(
        "weak_form_rate",
        cloud=cloud("cloud"),
        tangent=thing(
            "hf.extend.Tangent(jnp.asarray(atoms))", "atoms", "cloud", "hf.extend.Tangent(jnp.asarray(atoms)[:1])"
        ),
        test=_ONE,
    ),
    of("sampling_excess", risk=_RISK, cloud=cloud("wide"), m=count("3", huge=FINE)),
    of("first_variation", **_ANY, places=array("thetas[:2]", rows=False, empty=FINE)),
    of("optimality_gap", **_ANY, places=array("thetas[:2]", rows=False, empty=FINE)),
    of(
        "polish",
        functional=thing("risk + penalty", "unit", "sample", "field"),
        cloud=cloud("wide"),
        merge=number("0.0", least=0),
        least=number("0.0", least=0, below=1),
    ),
    # oracles
    of("replicator", weights=_SHARES, potential=array("quantiles"), alpha=number("0.5"), time=number("0.5")),
    *made(
        "QuadraticEnergy",
        "{}(cloud)",
        H=_FORM,
        b=array("np.array([0.25, -0.5])"),
        A=_FORM,
    ),
    Entry("QuadraticEnergy.variation", "bowl.variation({*})", {"cloud": cloud("cloud")}),
    of(
        "gaussian_flow",
        bowl=thing("bowl", "penalty", "moments"),
        mean=array("np.array([0.25, -0.5])"),
        covariance=_MOMENTS,
        times=_TIMES,
        transport=_COOL,
        alpha=_COOL,
        beta=_COOL,
        step=_ROUGH,
    ),
    *made("QuadraticRisk", "{}(cloud)", target=_FORM_ALONE),
    Entry("QuadraticRisk.variation", "hf.exact.QuadraticRisk(goal).variation({*})", {"cloud": cloud("cloud")}),
    of("quadratic_flow", **_SIDES, times=_TIMES, tolerance=_ROUGH),
    Entry(
        "quadratic_flow",
        "hf.exact.quadratic_flow(moments, goal, times=times, tolerance=0.125, {*})",
        {"inputs": array("xs", rows=False, optional=True)},
    ),
    of("quadratic_map", **_SIDES, times=_TIMES, tolerance=_ROUGH),
    of(
        "quadratic_descent",
        **_SIDES,
        inputs=array("np.stack([xs, -xs])", rows=False, empty=FINE),
        step=number("0.125", least=0),
    ),
    of("quadratic_fluctuation", **_SIDES, times=_TIMES),
    of("quadratic_monte_carlo", moments=array("np.stack([moments, goal])", rows=False, empty=FINE)),
    of(
        "random_feature_flow", features=array("features", rows=False), ys=array("labels"), times=_ANY_TIMES, ridge=_COOL
    ),
    Entry(
        "random_feature_flow",
        "hf.exact.random_feature_flow(features, labels, times=times, {*})",
        {"weights": array("masses", optional=True).also("-masses")},
    ),
    of(
        "random_feature_fluctuation",
        features=array("features"),
        ys=array("labels"),
        ridge=_COOL,
        weights=array("masses", optional=True).also("-masses"),
    ),
    # proximal steps
    of(
        "gaussian_step",
        mean=number("0.5", rows=True),
        deviation=number("1.0", least=0, rows=True),
        stiffness=number("0.5", rows=True),
        temperature=number("0.5", least=0, rows=True),
        tau=number("0.5", least=0, rows=True),
    ),
    of("quantile_energy", functional=_WELL, quantiles=_ORDERED, temperature=_COOL),
    of("quantile_step", functional=_WELL, quantiles=_ORDERED, temperature=_COOL, tau=_WARM),
    of(
        "entropic_step",
        functional=_WELL,
        grid=_GRID,
        cloud=_LAW,
        temperature=number("1.0", above=0),
        tau=number("1.0", above=0),
        blur=number("0.5", above=0, optional=True),
        iterations=count("20000", huge=FINE),
    ),
    of("mirror_step", functional=_WELL, cloud=cloud("law", dim=False), tau=_COOL, temperature=_MILD),
    of(
        "grid_quantiles",
        grid=thing("grid", "cloud", *_OTHER_GRIDS[:2]),
        weights=array("np.asarray(law.weights)").also("-np.ones(16)", "np.zeros(16)"),
        n=count("3"),
    ),
    # reduced laws
    Entry(
        "reduced_risk",
        "hf.exact.reduced_risk({*})(hf.uniform(thetas))",
        {"teacher": cloud("teacher"), "d": count("6", huge=FINE).also("3"), "nodes": count("4")},
    ),
    of(
        "reduced_start",
        d=count("6", least=3, huge=FINE),
        outputs=array("(1.0, -1.0)", width=False, rows=False),
        scale=number("1.0", least=0),
        k=count("1"),
        along=count("3"),
        across=count("2"),
    ),
    of("ramp_average", size=number("0.5", least=0, rows=True), d=_SPHERE),
    Entry(
        "radial_risk",
        "hf.exact.radial_risk({*})(hf.uniform([[0.5], [2.0]]))",
        {"delta": number("0.5", above=0, below=1), "d": _SPHERE, "inputs": count("4")},
    ),
    *made("radial_unit", "hf.network({}, hf.uniform([[0.5], [2.0]]), np.ones((3, 1)))", d=_SPHERE),
    of(
        "best_norm",
        risk=thing("hf.exact.radial_risk(0.5)", "risk", "unit").also(fine=("penalty",)),
        low=number("0.5", above=0),
        high=number("8.0", above=0).also("0.25"),
        places=count("16", least=3),
    ),
]
