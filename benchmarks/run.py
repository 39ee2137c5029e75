"""`make bench`: the step against what people would write otherwise, against the machine, and against N.

Every contestant runs in processes of its own, in an order that alternates from round to round, each allowed all
cores; the table shows medians and ratios. PyTorch is optional: `pip install 'haarflow[bench]'`, or name another
interpreter that has it by --torch-python.
"""

import argparse
import json
import math
import os
import platform
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

from contestants import AVERAGED, CONTESTANTS, NEEDS, PUBLISHED, WIDE
from picture import draw

HERE = Path(__file__).parent
CASES = [(task, n) for task in (PUBLISHED, AVERAGED) for n in (100, 1000, 5000, 50_000)]
CASES += [(WIDE, n) for n in (1000, 10_000, 100_000)]
LADDER = [(WIDE, n) for n in (10_000, 30_000, 100_000, 300_000, 1_000_000)]
ONE_CORE = {"NPROC": "1", "OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
ALONE = "haarflow, one core"


def command(order: dict, python: str) -> list[str]:
    """How a contestant is started."""
    return [python, str(HERE / "measure.py"), json.dumps(order)]


def child(order: dict, *, python: str, one_core: bool = False) -> list[dict]:
    """What a process of its own measured; a contestant that fails leaves a line and an empty answer."""
    environment = os.environ | (ONE_CORE if one_core else {})
    done = subprocess.run(command(order, python), env=environment, capture_output=True, text=True)
    if done.returncode:
        print(f"  {order['who']} failed: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def present(options: argparse.Namespace) -> dict[str, tuple[str, str, bool]]:
    """The contestants that can run here: name -> (what, interpreter, on one core); says who is missing."""
    found = {ALONE: ("haarflow", sys.executable, True)}
    for name in CONTESTANTS:
        python = options.torch_python if NEEDS.get(name) == "torch" else sys.executable
        module = NEEDS.get(name, "numpy")
        if subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode:
            print(f"{name} is missing: {python} has no {module}. Going on without it.")
        else:
            found[name] = (name, python, False)
    return found


def race(options: argparse.Namespace, contestants: dict) -> dict[str, dict[str, float]]:
    """Seconds per step of every contestant in every case: the median over rounds in alternating order."""
    cases = [case for case in CASES if case[1] <= options.largest]
    seen = defaultdict(lambda: defaultdict(list))
    for turn in range(options.rounds):
        names = list(contestants) if turn % 2 == 0 else list(contestants)[::-1]
        for name in names:
            print(f"round {turn + 1} of {options.rounds}: {name}", flush=True)
            what, python, one_core = contestants[name]
            order = {"who": what, "cases": cases, "seconds": options.seconds, "repeats": options.repeats}
            for line in child(order, python=python, one_core=one_core):
                seen[f"{line['task']} {line['n']}"][name].append(line["seconds"])
    return {case: {name: median(values) for name, values in by.items()} for case, by in seen.items()}


def floor(options: argparse.Namespace) -> dict[str, float]:
    """Seconds of the machine's own product, activation and noise for a wide step: the better of one core and all."""
    cases = [case for case in CASES if case[0] == WIDE and case[1] <= options.largest]
    best = defaultdict(lambda: defaultdict(lambda: math.inf))
    for rate in ("forward", "backward", "activation", "noise"):
        for one_core in (True, False):
            order = {"who": rate, "cases": cases, "seconds": options.seconds, "repeats": options.repeats}
            for line in child(order, python=sys.executable, one_core=one_core):
                case = best[f"{line['task']} {line['n']}"]
                case[rate] = min(case[rate], line["seconds"])
    return {case: sum(rates.values()) for case, rates in best.items()}


def ladder(options: argparse.Namespace) -> list[dict]:
    """Cost and peak memory against N, each size in a process of its own."""
    lines = []
    for case in LADDER:
        if case[1] <= 10 * options.largest:
            order = {"who": "haarflow", "cases": [case], "seconds": options.seconds, "repeats": options.repeats}
            lines += child(order, python=sys.executable)
    return lines


def exponent(lines: list[dict]) -> float:
    """The slope of log seconds in log N."""
    xs, ys = ([math.log(line[key]) for line in lines] for key in ("n", "seconds"))
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)


def side_by_side(options: argparse.Namespace) -> dict[str, float]:
    """How much more two runs do together, a core each, than one run with both cores: steps per second, as a ratio."""
    gains = {}
    for case in [(PUBLISHED, 1000), (PUBLISHED, 5000), (WIDE, 10_000)]:
        order = {"who": "haarflow", "cases": [case], "seconds": 1.0, "repeats": options.repeats}
        alone = child(order, python=sys.executable)[0]["seconds"]
        pair = [
            subprocess.Popen(
                command(order, sys.executable), env=os.environ | ONE_CORE, stdout=subprocess.PIPE, text=True
            )
            for _ in range(2)
        ]
        each = [json.loads(process.communicate()[0].splitlines()[-1])["seconds"] for process in pair]
        gains[f"{case[0]} {case[1]}"] = alone * sum(1 / seconds for seconds in each)
    return gains


def table(results: dict) -> str:
    """Microseconds of our step, and everyone else's time as a multiple of it."""
    names = [name for name in results["contestants"] if name not in ("haarflow", ALONE)]
    rows = [["case", "µs per step", *names, "over the floor"]]
    for case, seconds in results["race"].items():
        ours = best(seconds)
        peers = [f"{seconds[name] / ours:.2f}×" if name in seconds else "—" for name in names]
        base = results["floor"].get(case)
        rows.append([case, f"{ours * 1e6:.0f}", *peers, f"{ours / base:.2f}×" if base else ""])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows)


def best(seconds: dict[str, float]) -> float:
    """Ours, on one core or on all."""
    return min(value for name, value in seconds.items() if name in ("haarflow", ALONE))


def bases() -> dict[str, float]:
    """Fixed-basis timings, in a fresh process."""
    code = "import json, machine; print(json.dumps(machine.fixed_bases()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="of one repeat")
    parser.add_argument("--largest", type=int, default=100_000, help="particles; the ladder goes ten times further")
    parser.add_argument("--torch-python", default=sys.executable, help="an interpreter that has PyTorch")
    return parser.parse_args()


def main() -> None:
    """Measure, print, save."""
    options = arguments()
    contestants = present(options)
    results = {
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "contestants": list(contestants),
        "race": race(options, contestants),
        "floor": floor(options),
        "ladder": ladder(options),
        "side by side": side_by_side(options),
        "fixed bases": bases(),
    }
    results["exponent"] = exponent(results["ladder"]) if len(results["ladder"]) > 1 else None
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "bench.json").write_text(json.dumps(results, indent=1, ensure_ascii=False))
    draw(results, options.out / "bench.png")
    print("\nEveryone else's time as a multiple of ours:\n" + table(results))
    for line in results["ladder"]:
        print(f"N = {line['n']}: {line['seconds'] * 1e3:.1f} ms per step, peak {line['peak_gb']:.2f} GB")
    print(f"cost grows like N^{results['exponent']:.2f}" if results["exponent"] else "")
    print("two runs side by side against one: ", {k: f"{v:.2f}×" for k, v in results["side by side"].items()})
    for name, seconds in results["fixed bases"].items():
        print(f"fixed basis of {name}: {seconds * 1e3:.0f} ms")
    print(f"saved in {options.out}/bench.json and bench.png")


if __name__ == "__main__":
    main()
