"""What the benchmark must show on a quiet machine of two cores, stated before it is run."""

import math

# How many times longer PyTorch's eager step takes, at least.
EAGER = {
    "published 100": 18.0,
    "published 1000": 3.3,
    "published 5000": 3.0,
    "published 50000": 2.5,
    "averaged 1000": 4.0,
    "averaged 5000": 4.0,
    "averaged 50000": 4.0,
    "wide 1000": 2.5,
    "wide 10000": 2.0,
    "wide 100000": 2.3,
}
FLOOR = {"wide 10000": 2.0, "wide 100000": 2.0}  # our step over the machine's floor, at most
EXPONENT = (0.95, 1.1)  # of the cost in N, from 10⁴ to 10⁶
MEMORY = 4.0  # GB, at 10⁶ particles
TRAINING = 120.0  # seconds
KERNEL_MEMORY = 4.0  # GB, of kernel ridge regression on 20 000 inputs in R^30
IMAGES = 1.3  # an augmented step on 28 × 28 images over the plain one, at most


def judged(results: dict) -> list[dict]:
    """Every bound whose cases were measured: the claim, the value and whether it holds."""
    lines = []

    def judge(claim: str, value: float, low: float = -math.inf, high: float = math.inf) -> None:
        lines.append({"claim": claim, "value": value, "holds": low <= value <= high})

    for case, ours in results["best"].items():
        others = {name: value / ours for name, value in results["race"][case].items() if "haarflow" not in name}
        if case in EAGER and "PyTorch eager" in others:
            judge(
                f"{case}: at least {EAGER[case]:g} times as fast as PyTorch eager", others["PyTorch eager"], EAGER[case]
            )
        if others:
            nearest = min(others, key=lambda name: others[name])
            judge(f"{case}: faster than everyone, also than the nearest, {nearest}", others[nearest], 1.0)
        if case in FLOOR:
            judge(f"{case}: at most {FLOOR[case]:g} times the floor", ours / results["floor"][case], high=FLOOR[case])
    if results["exponent"] is not None and max(line["n"] for line in results["ladder"]) == 10**6:
        judge(f"cost grows like a power of N between {EXPONENT[0]} and {EXPONENT[1]}", results["exponent"], *EXPONENT)
        peak = results["ladder"][-1]["peak_gb"]
        judge(f"a million particles in R^66 on batches of 64 need less than {MEMORY:g} GB", peak, high=MEMORY)
    if results["training"]:
        best = min(results["training"].values())
        judge(f"the published training in float64 takes less than {TRAINING:g} s", best, high=TRAINING)
    for line in results["kernel ridge"]["growth"]:
        if line["n"] == 20_000:
            judge(
                f"kernel ridge on 20 000 inputs needs less than {KERNEL_MEMORY:g} GB",
                line["peak_gb"],
                high=KERNEL_MEMORY,
            )
    for case, ratio in results["images"].items():
        judge(f"28 × 28 images turned at random, {case}: at most {IMAGES:g} times the plain step", ratio, high=IMAGES)
    return lines
