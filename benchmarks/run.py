"""`make bench`: the step against what people would write otherwise, against the machine, and against N.

Every contestant lives in a process of its own, allowed all cores; in each case all of them take turns, half a second
each, in an order that alternates, and the table shows medians and ratios. We run in three ways (one core, all cores,
two devices of a core each) and the best one counts, as `flow` lets the user choose. PyTorch and numba are optional:
`pip install 'haarflow[bench]'`, or name another interpreter that has PyTorch by --torch-python. What `bounds.py` states
is judged at the end. Run it on a quiet machine; `--quick` only shows that it works.
"""

import argparse
import json
import math
import os
import platform
import shutil
import subprocess
import sys
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import kernel_ridge
import quotient_transport
from bounds import judged
from contestants import AVERAGED, CONTESTANTS, NEEDS, PUBLISHED, WIDE
from picture import draw
from workers import BURSTS, Worker, in_turn, measured

HERE = Path(__file__).parent
CASES = [(task, n) for task in (PUBLISHED, AVERAGED) for n in (100, 1000, 5000, 50_000)]
CASES += [(WIDE, n) for n in (1000, 10_000, 100_000)]
LADDER = [(WIDE, n) for n in (10_000, 30_000, 100_000, 300_000, 1_000_000)]
ONE_CORE = {"NPROC": "1", "OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
TWO_DEVICES = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2 --xla_cpu_multi_thread_eigen=false"}
OURS = {"haarflow": {}, "haarflow, one core": ONE_CORE, "haarflow, two devices": TWO_DEVICES}
TRAINING = 100_000  # steps of the published training, in float64 at N = 5000


def present(options: argparse.Namespace) -> dict[str, tuple[str, str, dict]]:
    """The contestants that can run here: name -> (what, interpreter, environment); says who is missing."""
    found = {name: ("haarflow", sys.executable, settings) for name, settings in OURS.items()}
    for name in [name for name in CONTESTANTS if name not in OURS]:
        python = options.torch_python if NEEDS.get(name) == "torch" else sys.executable
        module = NEEDS.get(name, "numpy")
        if subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode:
            print(f"{name} is missing: {python} has no {module}. Going on without it.")
        else:
            found[name] = (name, python, {})
    return found


def race(options: argparse.Namespace, contestants: dict) -> dict[str, dict[str, float]]:
    """Seconds per step of every contestant in every case."""
    with ExitStack() as stack:
        workers = {
            name: stack.enter_context(Worker(what, python=python, settings=settings))
            for name, (what, python, settings) in contestants.items()
        }
        cases = [case for case in CASES if case[1] <= options.largest]
        return {f"{task} {n}": _times(workers, task, n, options) for task, n in cases}


def _times(workers: dict[str, Worker], task: str, n: int, options: argparse.Namespace) -> dict[str, float]:
    """The median over rounds in alternating order."""
    print(f"{task} {n}", flush=True)
    in_turn(workers, lambda worker: worker.ready(task, n, seconds=options.seconds))
    rounds = [in_turn(workers, Worker.burst, backwards=turn % 2 == 1) for turn in range(options.rounds)]
    return {name: median(times[name] for times in rounds) for name in workers}


def floor(options: argparse.Namespace) -> dict[str, float]:
    """Seconds of a wide step at the machine's best rates of products, activation and noise.

    Each rate is the best over the sizes, on one core or on all: a large array alone would be charged for fresh memory.
    """
    cases = [case for case in CASES if case[0] == WIDE and case[1] <= options.largest]
    rates = defaultdict(lambda: math.inf)
    for rate in ("forward", "backward", "activation", "noise"):
        for settings in (ONE_CORE, {}):
            for line in measured(rate, cases, seconds=options.seconds, settings=settings):
                rates[rate] = min(rates[rate], line["seconds"] / line["n"])
    return {f"{task} {n}": n * sum(rates.values()) for task, n in cases}


def native(options: argparse.Namespace) -> dict[str, float]:
    """Seconds of the published step as a fused kernel in C."""
    if not shutil.which("cc"):
        print("the native kernel is missing: there is no C compiler, cc. Going on without it.")
        return {}
    cases = [case for case in CASES if case[0] == PUBLISHED and case[1] <= options.largest]
    return {
        f"{line['task']} {line['n']}": line["seconds"] for line in measured("native", cases, seconds=options.seconds)
    }


def ladder(options: argparse.Namespace) -> list[dict]:
    """Cost and peak memory against N, each size in a process of its own."""
    cases = [case for case in LADDER if case[1] <= 10 * options.largest]
    return [line for case in cases for line in measured("haarflow", [case], seconds=options.seconds)]


def exponent(lines: list[dict]) -> float:
    """The slope of log seconds in log N."""
    xs, ys = ([math.log(line[key]) for line in lines] for key in ("n", "seconds"))
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)


def side_by_side(options: argparse.Namespace) -> dict[str, float]:
    """How much more two runs do together, a core each, than one run with both cores: steps per second, as a ratio."""
    gains = {}
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker("haarflow", settings=settings)) for settings in ({}, ONE_CORE, ONE_CORE)]
        for task, n in [(PUBLISHED, 1000), (PUBLISHED, 5000), (WIDE, 10_000)]:
            for worker in workers:
                worker.ready(task, n, seconds=options.seconds)
            gains[f"{task} {n}"] = median(_gain(*workers) for _ in range(BURSTS))
    return gains


def _gain(alone: Worker, left: Worker, right: Worker) -> float:
    for worker in (left, right):
        worker.begin()
    together = sum(1 / worker.end() for worker in (left, right))
    return alone.burst() * together


def training(options: argparse.Namespace) -> dict[str, float]:
    """Seconds of the published training in float64, by the seconds of its step."""
    ways = {
        name: measured("haarflow", [(PUBLISHED, 5000)], seconds=options.seconds, settings=way | {"JAX_ENABLE_X64": "1"})
        for name, way in OURS.items()
    }
    return {name: TRAINING * lines[0]["seconds"] for name, lines in ways.items() if lines}


def reduction(options: argparse.Namespace) -> dict[str, float]:
    """How much faster a flow is with one particle and one sample per orbit of a group of eight."""
    cases = [("whole", n) for n in (800, 8000)] + [("reduced", n) for n in (800, 8000)]
    lines = measured("closed", cases, seconds=options.seconds, settings=ONE_CORE)
    seconds = {(line["task"], line["n"]): line["seconds"] for line in lines}
    return {f"N = {n}": seconds["whole", n] / seconds["reduced", n] for n in (800, 8000) if ("reduced", n) in seconds}


def images(options: argparse.Namespace) -> dict[str, float]:
    """How much longer a step on 28 × 28 images takes where each image is turned at random: side by side, as a ratio."""
    ratios = {}
    with ExitStack() as stack:
        plain, augmented = (stack.enter_context(Worker("pictures")) for _ in range(2))
        for n in (300, 1000):
            for task, worker in (("plain", plain), ("augmented", augmented)):
                worker.ready(task, n, seconds=options.seconds)
            ratios[f"N = {n}"] = median(augmented.burst() / plain.burst() for _ in range(options.rounds))
    return ratios


def kernels(options: argparse.Namespace) -> dict:
    """Kernel ridge regression against scikit-learn's, and its growth to 20 000 inputs."""
    return kernel_ridge.measured(min(options.rounds, 3), largest=20_000 if options.largest > 1000 else 1000)


def quotients(options: argparse.Namespace) -> dict:
    """Transport under a group against POT on augmented samples."""
    return quotient_transport.measured(min(options.rounds, 3), largest=500 if options.largest > 1000 else 20)


def table(results: dict) -> str:
    """Microseconds of our step, and everyone else's time as a multiple of it."""
    names = [name for name in results["contestants"] if name not in OURS]
    rows = [["case", "µs per step", *names, "floor", "C kernel"]]
    for case, seconds in results["race"].items():
        others = [*(seconds.get(name) for name in names), results["floor"].get(case), results["native"].get(case)]
        ours = results["best"][case]
        rows.append([case, f"{ours * 1e6:.0f}", *("" if other is None else f"{other / ours:.2f}×" for other in others)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows)


def bases(_: argparse.Namespace) -> dict[str, float]:
    """Fixed-basis timings, in a fresh process."""
    code = "import json, machine; print(json.dumps(machine.fixed_bases()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--rounds", type=int, default=7, help="turns of every contestant in every case")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn")
    parser.add_argument("--largest", type=int, default=100_000, help="particles; the ladder goes ten times further")
    parser.add_argument("--torch-python", default=sys.executable, help="an interpreter that has PyTorch")
    parser.add_argument("--quick", action="store_true", help="tiny: whether everything runs, not how fast")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds, options.largest = 2, 0.1, 1000
    return options


SECTIONS = {
    "floor": floor,
    "native": native,
    "ladder": ladder,
    "side by side": side_by_side,
    "training": training,
    "reduction": reduction,
    "images": images,
    "fixed bases": bases,
    "kernel ridge": kernels,
    "quotient transport": quotients,
}


def main() -> None:
    """Measure, print, save; what is measured is saved at once."""
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    contestants = present(options)
    results: dict = {
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "contestants": list(contestants),
        "race": race(options, contestants),
    }
    results["best"] = {
        case: min(value for name, value in seconds.items() if name in OURS) for case, seconds in results["race"].items()
    }
    for name, section in SECTIONS.items():
        (options.out / "bench.json").write_text(json.dumps(results, indent=1, ensure_ascii=False))
        print(name, flush=True)
        results[name] = section(options)
    results["exponent"] = exponent(results["ladder"]) if len(results["ladder"]) > 1 else None
    results["bounds"] = [] if options.quick else judged(results)
    (options.out / "bench.json").write_text(json.dumps(results, indent=1, ensure_ascii=False))
    draw(results, options.out / "bench.png")
    report(results)
    print(f"saved in {options.out}/bench.json and bench.png")


def report(results: dict) -> None:
    """What was measured, in words."""
    print("\nEveryone else's time as a multiple of ours:\n" + table(results))
    for line in results["ladder"]:
        print(f"N = {line['n']}: {line['seconds'] * 1e3:.1f} ms per step, peak {line['peak_gb']:.2f} GB")
    if results["exponent"]:
        print(f"cost grows like N^{results['exponent']:.2f}")
    for case, gain in results["side by side"].items():
        print(f"two runs side by side against one, {case}: {gain:.2f}× the steps")
    for way, seconds in results["training"].items():
        print(f"published training, {TRAINING} steps in float64 at N = 5000, {way}: {seconds:.0f} s")
    for case, gain in results["reduction"].items():
        print(f"one particle and one sample per orbit of eight, {case}: {gain:.1f}× faster")
    for case, ratio in results["images"].items():
        print(f"a step on 28 × 28 images turned at random, {case}: {ratio:.2f} times the plain step")
    for name, ratio in results["kernel ridge"]["ratio"].items():
        print(f"kernel ridge regression, scikit-learn's time over that of {name}: {ratio:.2f}")
    for line in results["kernel ridge"]["growth"]:
        print(f"kernel ridge, {line['n']} inputs in R^30: {line['seconds']:.1f} s, peak {line['peak_gb']:.2f} GB")
    for order, line in results["quotient transport"].items():
        for name in ("listed elements", "fold"):
            ratios = f"{line['seconds'][name]:.1f} times the seconds, {line['memory'][name]:.1f} times the memory"
            print(f"W1 under {order} elements, n = {line['n']}, POT augmented over {name}: {ratios}")
        alone = line["alone"]
        print(
            f"W1 under {order} elements, n = {alone['n']}, listed elements alone: {alone['seconds']:.2f} s, "
            f"{alone['added_gb']:.2f} GB more; augmented transport would take {line['augmented_gb']:.1f} GB"
        )
    for name, seconds in results["fixed bases"].items():
        print(f"fixed basis of {name}: {seconds * 1e3:.0f} ms")
    for line in results["bounds"]:
        print(f"{'holds' if line['holds'] else 'DOES NOT HOLD'}: {line['claim']}: {line['value']:.3g}")


if __name__ == "__main__":
    main()
