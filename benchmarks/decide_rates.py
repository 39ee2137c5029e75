"""How often `decide` answers right: digits under flips, a label that has the symmetry, one that has not, and 60 rows.

    python benchmarks/decide_rates.py [first seed] [number of seeds]

Data sets are those of the experiment decide-real; `decide` runs with its default folds, repeats, level and tolerance.
"""

import sys
import time
from collections import Counter

import numpy as np

from haarflow.experiments.decide_real import NEEDED, TRUTHS, DecideReal, kind_of
from haarflow.practice.decide import decide

CASES = {
    "digits, a label that no flip changes": {},
    "digits, a label that flips change": {"broken": True},
    "digits, the same label, 60 rows": {"few": True},
}


def main(first: int = 100, seeds: int = 20) -> None:
    """Print the answers seed by seed, and the rates."""
    for case, options in CASES.items():
        begin, told = time.time(), Counter()
        for seed in range(first, first + seeds):
            x, y, flips = DecideReal().flipped_digits(np.random.default_rng(seed), **options)
            answer = decide(x, y, flips, estimator="kernel", curve=False, progress=False, seed=seed)
            told[kind_of(answer.recommended)] += 1
            print(f"  {seed}: {answer}", flush=True)
        right = told[TRUTHS[case]]
        print(f"{case}: {TRUTHS[case]} in {right} of {seeds} (wanted {NEEDED:.0%});", end=" ")
        print(f"{dict(told)}; {time.time() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
