"""Right calls of function spaces: harmonics, norms, kernel regression."""

from bend import FINE, array, choice, cloud, count, number, thing
from entry import Entry, of

_D = {"d": count("4", least=2)}
_DEGREE = {"degree": count("3", least=0)}
_NEURONS = {
    "cloud": cloud("students", dim=False),
    "outputs": count("1"),
    "tolerance": number("1e-9", least=0),
}
_COSINES = array("np.array([0.5, -0.2])", width=False, rows=False, empty=FINE)
_ROWS = {"xs": array("xs", width=False), "ys": array("np.array([0.5, 1.0, -0.3])", width=False)}
_KERNEL = "hf.kernels.fit_kernel_ridge(xs=xs, ys=np.array([0.5, 1.0, -0.3]), ridge=0.5)"
_FEATURES = "hf.kernels.fit_random_features(unit, wide, xs, np.ones((3, 2)), ridge=0.5)"

ENTRIES = [
    of("harmonics", **_D, **_DEGREE),
    of("legendre", cosines=_COSINES, d=count("4", least=2, huge=FINE), **_DEGREE),
    of("funk_hecke", profile=choice('"relu"'), **_D, **_DEGREE),
    of("f2_norm_squared", profile=choice('"relu"'), **_D, **_DEGREE, activation=choice('"relu"')),
    of("merged_neurons", **_NEURONS),
    of("variation_norm", **_NEURONS),
    of(
        "fit_kernel_ridge",
        **_ROWS,
        ridge=number("0.5", least=0),
        kernel=choice('"relu"'),
        method=choice('"cholesky"'),
        landmarks=count("2", huge=FINE, optional=True),
        tolerance=number("1e-6", above=0),
        progress=thing("False", '"bar"', optional=True),
    ),
    of(
        "fit_random_features",
        unit=thing("unit", "cloud", late=("hf.Dense(3, 2)",)),
        cloud=cloud("wide"),
        xs=array("xs"),
        ys=array("np.ones((3, 2))"),
        ridge=number("0.5", least=0),
    ),
    Entry("KernelFit", f"str({_KERNEL})", {}),
    Entry("KernelFit.predict", f"{_KERNEL}.predict({{*}})", {"xs": array("xs", rows=False, empty=FINE)}),
    Entry("FeatureFit", f"str({_FEATURES})", {}),
    Entry("FeatureFit.predict", f"{_FEATURES}.predict({{*}})", {"xs": array("xs", rows=False, empty=FINE)}),
]
