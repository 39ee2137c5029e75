"""One process, one contestant. It reads orders, a line of JSON each, and answers each with a line.

`{"task": ..., "n": ...}` makes a case ready, `{"steps": ...}` runs so many of its steps; the answer has the seconds it
took and the peak memory so far.
"""

import json
import resource
import sys
import time

import contestants
import machine


def main(who: str) -> None:
    """Orders until there are no more."""
    make = (contestants.CONTESTANTS | machine.RATES | {"closed": contestants.closed, "pictures": contestants.pictures})[
        who
    ]
    run = None
    for line in sys.stdin:
        order = json.loads(line)
        begun = time.perf_counter()
        if "task" in order:
            run = make(order["task"], order["n"])
        elif run is not None:
            run(order["steps"])
        seconds = time.perf_counter() - begun
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(json.dumps({"seconds": seconds, "peak_gb": peak}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
