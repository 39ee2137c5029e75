"""Transport under a group: quotient costs against POT on augmented samples, in time and memory, side by side.

n = 500 points on each side in R^3 (in the plane for eight elements). Augmented by 48 elements a side has 24 000 points,
and POT's costs and plan alone would take tens of gigabytes: where that does not fit, POT is measured at the largest n
that does, and our own at the same n beside it. `python quotient_transport.py NAME ORDER N` is one solve.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

HERE = Path(__file__).parent
CASES = {8: 500, 48: 60}
"""The order of the group, and the most points that POT is given: 4000 × 4000 and 2880 × 2880 augmented."""

FULL = 500


def group(order: int):
    """Eight signed permutations of the plane, or forty-eight of space."""
    import haarflow as hf

    return hf.natural_rep(hf.Hyperoctahedral({8: 2, 48: 3}[order]))


def samples(order: int, n: int):
    """Two samples of n points."""
    draw = np.random.default_rng(order)
    x, y = draw.normal(size=(2, n, {8: 2, 48: 3}[order]))
    return x, y + 0.5


def ours(rep, x, y) -> float:
    """haarflow's W1 under the group, by the elements one by one: not by the fold that this group has."""
    import haarflow as hf

    return hf.distances.w1(x, y, under=rep.action())


def folded(rep, x, y) -> float:
    """haarflow's W1 under the group, by the coordinates that flatten its quotient."""
    import haarflow as hf

    return hf.distances.w1(x, y, under=rep)


def theirs(rep, x, y) -> float:
    """POT's W1 of the augmented samples."""
    import ot

    turned = [np.asarray(rep.action().apply(z)).reshape(-1, z.shape[1]) for z in (x, y)]
    return float(ot.emd2([], [], ot.dist(*turned, metric="euclidean"), numItermax=10**9))


SOLVES = {"POT, augmented": theirs, "listed elements": ours, "fold": folded}


def once(name: str, order: int, n: int) -> dict:
    """One solve in a process of its own: seconds, the memory it added in GB, and the value."""
    command = [sys.executable, __file__, name, str(order), str(n)]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measured(rounds: int, largest: int = FULL) -> dict:
    """For each group: POT's seconds and added memory over ours at the same n, the gap; ours alone at n = 500."""
    found = {}
    for order, n in CASES.items():
        n = min(n, largest)
        turns = [{name: once(name, order, n) for name in SOLVES} for _ in range(rounds)]
        middle = {name: {key: median(turn[name][key] for turn in turns) for key in turns[0][name]} for name in SOLVES}
        pot = middle["POT, augmented"]
        found[str(order)] = {
            "n": n,
            "seconds": {name: pot["seconds"] / middle[name]["seconds"] for name in SOLVES},
            "memory": {name: pot["added_gb"] / max(middle[name]["added_gb"], 1e-3) for name in SOLVES},
            "gap": max(abs(middle[name]["value"] - pot["value"]) for name in SOLVES),
            "alone": once("listed elements", order, min(FULL, largest)),
            "augmented_gb": 52e-9 * (order * min(FULL, largest)) ** 2,
        }
    return found


if __name__ == "__main__":
    name, order, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rep = group(order)
    SOLVES[name](rep, *samples(order, 5))  # imports
    x, y = samples(order, n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    value = SOLVES[name](rep, x, y)
    seconds = time.perf_counter() - start
    added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
    print(json.dumps({"n": n, "seconds": seconds, "added_gb": added, "value": value}))
