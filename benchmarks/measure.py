"""One process, one contestant, some cases: seconds per step, compilation apart. A line of JSON for each case."""

import json
import resource
import sys
import time
from statistics import median

import contestants
import machine

LEAST = 16  # steps of one repeat: what comes before the first step must not count for much


def per_step(run: contestants.Run, *, seconds: float, repeats: int) -> float:
    """The median over repeats, each of about that many seconds; the first calls compile and warm up."""
    run(LEAST)
    steps = LEAST
    while (spent := _clock(run, steps)) < seconds / 2 and steps < 1_000_000:
        steps = max(steps * 2, min(steps * 50, int(steps * seconds / max(spent, 1e-6))))
    return median(_clock(run, steps) / steps for _ in range(repeats))


def _clock(run: contestants.Run, steps: int) -> float:
    begun = time.perf_counter()
    run(steps)
    return time.perf_counter() - begun


def main(order: dict) -> None:
    """Every case of the order, in turn."""
    make = (contestants.CONTESTANTS | machine.RATES | {"closed": contestants.closed, "native": machine.native})[
        order["who"]
    ]
    for task, n in order["cases"]:
        begun = time.perf_counter()
        seconds = per_step(make(task, n), seconds=order["seconds"], repeats=order["repeats"])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        line = {"task": task, "n": n, "seconds": seconds, "peak_gb": peak, "all": time.perf_counter() - begun}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
