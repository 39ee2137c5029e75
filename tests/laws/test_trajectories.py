"""What a flow hands back shows itself: in print, in a notebook, as columns, as a picture."""

import sys

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
import pytest

from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import Diverged, flow
from haarflow.dynamics.games import DescentAscent
from haarflow.dynamics.schemes import Euler
from haarflow.errors import Refusal
from haarflow.learning.risks import Penalty
from haarflow.measures.clouds import stack_clouds, uniform

KEY = jax.random.key(0)
CLOUD = uniform(jnp.array([[1.0, 2.0], [3.0, -4.0], [0.0, 1.0]]))
PROBES = {"size": lambda cloud: cloud.second_moment(), "mean": lambda cloud: cloud.mean()}
ONE = flow(Descend(Penalty(1.0)), Euler(), CLOUD, key=KEY, dt=0.5, steps=4, every=2, probes=PROBES)
MANY = flow(
    [Descend(Penalty(tau)) for tau in (1.0, 0.5, 0.0)],
    Euler(),
    CLOUD,
    key=jax.random.split(KEY, 3),
    dt=[0.5, 0.5, 1.0],
    steps=4,
    every=2,
    probes=PROBES,
)


def test_the_table_has_a_row_for_each_step_of_each_run():
    table = ONE.table()
    assert list(table) == ["step", "time", "size", "mean[0]", "mean[1]"]
    np.testing.assert_array_equal(table["step"], [0, 2, 4])
    np.testing.assert_allclose(table["mean[1]"], -1 / 3 * 0.25 ** np.arange(3), rtol=1e-12)
    table = MANY.table()
    assert {len(column) for column in table.values()} == {9}
    np.testing.assert_array_equal(table["run"], [0, 0, 0, 1, 1, 1, 2, 2, 2])
    np.testing.assert_array_equal(table["time"], [0, 1, 2, 0, 1, 2, 0, 2, 4])
    for row in range(9):
        run, at = divmod(row, 3)
        assert table["size"][row] == MANY.probes["size"][run, at]
        assert table["mean[0]"][row] == MANY.probes["mean"][run, at, 0]


def test_pandas_is_asked_for_only_where_it_is_wanted(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(Refusal, match=r"got no pandas in this environment. Write .table\(\)"):
        ONE.to_pandas()
    monkeypatch.undo()
    assert list(ONE.to_pandas().columns) == ["step", "time", "size", "mean[0]", "mean[1]"]


def test_it_prints_what_happened():
    assert repr(ONE).splitlines() == [
        "Trajectory of 3 particles in R^2 (4 steps to time 2)",
        "  size  10.3333 → 0.0403646",
        "  mean  an array (2,) → an array (2,)",
    ]
    assert "Trajectory of 3 particles in R^2 (3 runs, 4 steps to time 4)" in repr(MANY)
    assert "size  [10.3333, 10.3333] → [0.0403646, 10.3333]" in repr(MANY)
    assert "<td>0.0403646</td>" in ONE._repr_html_()
    assert "<script>" not in _named("<script>")._repr_html_()
    game = DescentAscent(lambda clouds: clouds["a"].mean() @ clouds["b"].mean(), ascend="b")
    players = flow(game, Euler(), {"b": CLOUD, "a": uniform(CLOUD.atoms[:2])}, key=KEY, dt=1e-3, steps=1)
    assert repr(players) == "Trajectory of a: 2 particles in R^2; b: 3 particles in R^2 (1 step to time 0.001)"


def _named(name):
    return flow(Descend(Penalty(1.0)), Euler(), CLOUD, key=KEY, dt=0.5, steps=1, probes={name: lambda c: c.mean()[0]})


def test_it_draws_its_probes_over_time():
    axis = matplotlib.figure.Figure().subplots()
    assert ONE.draw(axis) is axis
    assert [line.get_label() for line in axis.lines] == ["size", "mean[0]", "mean[1]"]
    np.testing.assert_array_equal(axis.lines[0].get_xydata(), np.stack([ONE.times, ONE.probes["size"]], 1))
    axis = matplotlib.figure.Figure().subplots()
    MANY.draw(axis, "size")
    np.testing.assert_allclose(axis.lines[0].get_ydata(), np.median(MANY.probes["size"], axis=0))
    band = axis.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() >= np.quantile(MANY.probes["size"], 0.9, axis=0).max() - 1e-12
    with pytest.raises(Refusal, match="got 'risk', not among .'mean', 'size'."):
        ONE.draw(axis, "risk")
    with pytest.raises(Refusal, match="draw takes an axis of matplotlib and names of probes; got 'size'"):
        ONE.draw("size")


def test_runs_that_stopped_leave_the_picture_to_the_others():
    starts = stack_clouds([uniform(jnp.full((2, 1), size)) for size in (0.1, 30.0)])
    steep = Descend(Penalty(-1.0, lambda theta: jnp.sum(theta**4)))
    probes = {"size": lambda cloud: cloud.second_moment()}
    with pytest.warns(Diverged):
        path = flow(steep, Euler(), starts, key=jax.random.split(KEY, 2), dt=0.1, steps=20, every=10, probes=probes)
    axis = path.draw(matplotlib.figure.Figure().subplots())
    assert np.isfinite(axis.lines[0].get_ydata()).all()
    assert path.stopped is not None
    assert path.stopped in repr(path)
