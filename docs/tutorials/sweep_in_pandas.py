"""A sweep and its table in pandas.

An experiment has settings. Change one, run it at every value, and look at the results where you look at all your
results: in a data frame. The experiment here finds the best law for a small penalised network; we slide the penalty.
"""

# %% A sweep is a file: an experiment, a mode, seeds, and values. Every combination is run once; what is there already
# is not run again. On the command line this is `haarflow sweep sweep.toml --out results`.
from pathlib import Path

import haarflow as hf
from haarflow.cli import answer

Path("sweep.toml").write_text("""\
experiment = "minimiser"
mode = "quick"
seeds = [0]

[sweep]
tau = [0.01, 0.02, 0.04, 0.08]
""")
code = answer(["sweep", "sweep.toml", "--out", "results", "--workers", "0"])
print("exit code", code)

# %% A row for each record: settings, numbers, whether its claims hold, seconds.
records = hf.records("results")
table = records.to_pandas().sort_values("tau")
print(table[["experiment", "tau", "minimiser, value", "atoms of the minimiser", "holds"]].to_string(index=False))

# %% The arrays behind the numbers, with named axes, in the order of the records: here the particles of the best laws.
atoms = dict(zip(records.table()["tau"], records.arrays("atoms"), strict=True))
weights = dict(zip(records.table()["tau"], records.arrays("weights"), strict=True))
print(atoms[0.01].dims, atoms[0.01].shape)

# %% From here on it is pandas and matplotlib: a larger penalty leaves fewer particles, nearer to the origin.
import matplotlib  # noqa: E402

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
table.plot("tau", "minimiser, value", ax=axes[0], marker="o", legend=False, ylabel="least energy")
for tau in sorted(atoms):
    axes[1].scatter(*atoms[tau].values.T, s=10 + 300 * weights[tau].values, alpha=0.6, label=f"tau = {tau:g}")
axes[1].set(xlabel="first weight", ylabel="second weight")
axes[1].legend(fontsize=8, loc="lower right")
figure.savefig("sweep_in_pandas.png", dpi=100)
