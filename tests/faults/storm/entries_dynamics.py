"""Right calls of what flows are compared with: laws on grids, limits, oracles, proximal steps, reduced laws."""

from bend import FINE, array, cloud, count, function, key, number, rep, thing
from entry import Entry, of

_RISK = thing("risk", "penalty", "unit", "hf.Risk(unit, sample, 'square')", "hf.Risk(unit, batches)")
_WELL = thing("well", "unit", "risk", "field", "lambda cloud: 0.0")
_GRID = thing("grid", "cloud", "(-3.0, 3.0, 16)", "hf.Grid(-3.0, 3.0, 17)", "hf.Grid((-3, -3), (3, 3), (4, 4))")
_LAW = cloud("law").also("cloud", "hf.Grid(-3.0, 3.0, 17).normal(0.0, 1.0)")
_WARM = number("0.5", above=0)
_TIMES = array("times", width=False, rows=False).also("-times", "times[::-1]")
_MOMENTS = array("moments").also("-moments", "moments + np.triu(moments)")
_FORM = array("goal").also("goal + np.triu(moments)")
_SIDE = {"start": _MOMENTS, "target": _FORM}
_ANY = {"functional": thing("risk", "unit", "sample", "field"), "cloud": cloud("wide")}

ENTRIES = [
    # laws on grids
    Entry("Grid", "hf.Grid({*}).centres", {
        "low": number("-3.0", below=3, rows=True), "high": number("3.0", above=-3, rows=True), "cells": count("16", least=2),
    }),
    Entry("Grid.edges", "grid.edges({*})", {"axis": count("0", least=0, most=0)}),
    Entry("Grid.law", "grid.law({*})", {"masses": array("np.arange(16.0)", whole=True).also("np.zeros(16)", "-np.ones(16)")}),
    Entry("Grid.normal", "grid.normal({*})", {"mean": number("0.5"), "deviation": number("1.0", above=0)}),
    of("entropy", weights=array("masses", width=False, rows=False).also("-masses"), volume=_WARM),
    of("relative_entropy", weights=array("masses").also("-masses"), others=array("masses[::-1]").also("-masses")),
    of("free_energy", functional=_WELL, grid=_GRID, cloud=_LAW, temperature=number("0.5", least=0)),
    of("local_gibbs", functional=_WELL, cloud=cloud("law", dim=False), temperature=_WARM),
    Entry("gibbs", "hf.gibbs({*}).cloud", {
        "functional": _WELL, "grid": thing("grid", "cloud", "(-3.0, 3.0, 16)"), "temperature": _WARM,
        "tolerance": number("1e-8", above=0), "damping": number("0.5", above=0, most=1, optional=True), "most": count("100", huge=FINE),
    }),
    Entry("Gibbs", "hf.gibbs(well, grid, temperature=0.5).free_energy", {}),
    of("fokker_planck", functional=_WELL, grid=_GRID, cloud=_LAW, temperature=number("0.5", least=0), dt=number("0.25", above=0),
        steps=count("2", least=0), every=count("1", huge=FINE, optional=True)),
    Entry("GridPath", "hf.fokker_planck(well, grid, law, temperature=0.5, dt=0.25, steps=1).drift", {}),
    of("relaxation_rate", functional=_WELL, grid=_GRID, cloud=cloud("hf.gibbs(well, grid, temperature=0.5).cloud").also("law"), temperature=_WARM),
    # limits
    Entry("Pairwise", "hf.Pairwise({*})(cloud)", {
        "one_body": function("square", "lambda z: z", "lambda z: 'three'", "lambda z: None"),
        "pair": function("lambda a, b: a @ b", "lambda a, b: a", "lambda a, b: 'three'", "lambda a, b: None", "lambda a, b: a @ a"),
        "constant": number("0.5"),
    }),
    Entry("Pairwise.sums", "hf.pairwise(risk).sums({*})", {"cloud": cloud("wide")}),
    Entry("Pairwise.at", "hf.pairwise(risk).at({*})", {"theta": array("thetas[0]"), "cloud": cloud("wide")}),
    Entry("pairwise", "hf.pairwise({*})(wide)", {"risk": _RISK}),
    of("dissipation", **_ANY, transport=number("0.5", least=0), growth=number("0.5", least=0)),
    of("weak_rate", cloud=cloud("cloud"), tangent=thing("hf.Tangent(np.asarray(cloud.atoms))", "atoms", "cloud", "hf.Tangent(atoms[:1])"),
        test=function("square", "lambda z: z", "lambda z: 'three'", "lambda z: None")),
    of("sampling_excess", risk=_RISK, cloud=cloud("wide"), m=count("3", huge=FINE)),
    of("first_variation", **_ANY, places=array("thetas[:2]", rows=False)),
    of("optimality_gap", **_ANY, places=array("thetas[:2]", rows=False)),
    of("settle", functional=thing("risk + penalty", "unit", "sample", "field"), cloud=cloud("wide"), merge=number("0.0", least=0),
        least=number("0.0", least=0, below=1)),
    # oracles
    of("replicator", weights=array("masses").also("-masses"), potential=array("quantiles"), alpha=number("0.5", least=0),
        time=number("0.5", least=0)),
    Entry("Bowl", "hf.Bowl({*})(cloud)", {"H": _FORM, "b": array("np.array([0.25, -0.5])"), "A": _FORM}),
    Entry("Bowl.variation", "bowl.variation({*})", {"cloud": cloud("cloud")}),
    of("gaussian_flow", bowl=thing("bowl", "penalty", "moments"), mean=array("np.array([0.25, -0.5])"), covariance=_MOMENTS,
        times=_TIMES, transport=number("0.5", least=0), alpha=number("0.5", least=0), beta=number("0.5", least=0),
        step=number("0.125", above=0, optional=True)),
    Entry("QuadraticRisk", "hf.QuadraticRisk({*})(cloud)", {"target": _FORM}),
    Entry("QuadraticRisk.variation", "hf.QuadraticRisk(goal).variation({*})", {"cloud": cloud("cloud")}),
    of("quadratic_flow", **_SIDE, times=_TIMES, tolerance=number("0.125", above=0, optional=True)),
    Entry("quadratic_flow", "hf.quadratic_flow(moments, goal, times=times, tolerance=0.125, {*})", {
        "inputs": array("xs", rows=False, optional=True),
    }),
    of("quadratic_map", **_SIDE, times=_TIMES, tolerance=number("0.125", above=0, optional=True)),
    of("quadratic_descent", **_SIDE, inputs=array("np.stack([xs, -xs])", rows=False), step=number("0.125", above=0)),
    of("quadratic_fluctuation", **_SIDE, times=_TIMES),
    of("quadratic_sampling", moments=array("np.stack([moments, goal])", rows=False)),
    of("frozen_flow", features=array("features", rows=False), ys=array("labels"), times=_TIMES, ridge=number("0.5", least=0)),
    Entry("frozen_flow", "hf.frozen_flow(features, labels, times=times, {*})", {
        "weights": array("masses", optional=True).also("-masses"),
    }),
    of("frozen_fluctuation", features=array("features"), ys=array("labels"), ridge=number("0.5", least=0),
        weights=array("masses", optional=True).also("-masses")),
    # proximal steps
    of("gaussian_step", mean=number("0.5", rows=True), deviation=number("1.0", least=0, rows=True), stiffness=number("0.5", rows=True),
        temperature=number("0.5", least=0, rows=True), tau=number("0.5", above=0, rows=True)),
    of("quantile_energy", functional=_WELL, quantiles=array("quantiles", width=False, rows=False).also("quantiles[::-1]"),
        temperature=number("0.5", least=0)),
    of("quantile_step", functional=_WELL, quantiles=array("quantiles", width=False, rows=False).also("quantiles[::-1]"),
        temperature=number("0.5", least=0), tau=_WARM),
    of("entropic_step", functional=_WELL, grid=_GRID, cloud=_LAW, temperature=number("1.0", above=0), tau=number("1.0", above=0),
        blur=number("0.5", above=0, optional=True), iterations=count("20000", huge=FINE)),
    of("mirror_step", functional=_WELL, cloud=cloud("law", dim=False), tau=_WARM, temperature=number("0.5", least=0)),
    of("grid_quantiles", grid=thing("grid", "cloud", "hf.Grid((-3, -3), (3, 3), (4, 4))", "hf.Grid(-3.0, 3.0, 17)"),
        weights=array("np.asarray(law.weights)").also("-np.ones(16)", "np.zeros(16)"), n=count("3")),
    # reduced laws
    Entry("reduced_risk", "hf.reduced_risk({*})(hf.uniform(thetas))", {
        "teacher": cloud("teacher"), "d": count("6", huge=FINE).also("3"), "nodes": count("4"),
    }),
    of("reduced_start", d=count("6", least=3, huge=FINE), outputs=array("(1.0, -1.0)", width=False, rows=False), scale=number("1.0", above=0),
        k=count("1"), along=count("3"), across=count("2")),
    of("ramp_average", size=number("0.5", least=0, rows=True), d=count("5", least=3, huge=FINE, optional=True)),
    Entry("radial_risk", "hf.radial_risk({*})(hf.uniform([[0.5], [2.0]]))", {
        "delta": number("0.5", above=0, below=1), "d": count("5", least=3, huge=FINE, optional=True), "inputs": count("4"),
    }),
    Entry("radial_unit", "hf.network(hf.radial_unit({*}), hf.uniform([[0.5], [2.0]]), np.ones((3, 1)))", {
        "d": count("5", least=3, huge=FINE, optional=True),
    }),
    of("best_norm", risk=thing("hf.radial_risk(0.5)", "risk", "penalty", "unit"), low=number("0.5", above=0), high=number("8.0", above=0).also("0.25"),
        places=count("16", least=3)),
]
