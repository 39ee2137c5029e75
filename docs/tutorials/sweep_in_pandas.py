"""A sweep and its table in pandas: one experiment at several settings, and a row for every record."""

import tempfile
from pathlib import Path

import haarflow as hf
from haarflow.cli import answer

with tempfile.TemporaryDirectory() as folder:
    home = Path(folder)
    # Every combination of the values in this file is run once; what is there already is not run again.
    sweep = 'experiment = "identities"\nmode = "quick"\nseeds = [0]\n[sweep]\natoms = [3, 5]\nsamples = [2]\n'
    (home / "sweep.toml").write_text(sweep)
    answer(["sweep", str(home / "sweep.toml"), "--out", str(home / "results"), "--workers", "0"])

    # A row for each record: settings, numbers, whether its claims hold, seconds.
    table = hf.records(home / "results").to_pandas()
    print(table[["experiment", "atoms", "samples", "holds"]])

    # The arrays behind the numbers, with named axes.
    for errors in hf.records(home / "results").arrays("errors"):
        print(errors.max("identity").to_pandas().round(18))
