"""A storm of bad calls on every public name: only a right answer or a Refusal may come back.

    python tests/faults/storm/storm.py --calls 300              # the faults of 300 calls, by name
    python tests/faults/storm/storm.py --name w2 --calls 50     # those of one name, or of a room: --name measures
    python tests/faults/storm/storm.py --run 'hf.distances.w2(3, cloud)'  # one call as a script, and its traceback

The calls run in a process of their own, with limits on time and memory: a request that would fill the machine costs
that process alone, which is then begun again.
"""

import argparse
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice, zip_longest
from typing import NamedTuple

from answers import Fault, Judge, Late
from bend import BAD
from entry import Call
from small import script
from table import ENTRIES, ROOM_OF, gaps

SECONDS = 10
"""The processor time of a call, compilation included."""

PATIENCE = 90
"""The time after which a call that does not even end is given up."""

GIGABYTES = 3
"""The memory that a call may ask for, beyond what the libraries take."""

FULL = 1
"""The gigabytes that earlier calls may leave behind, as compiled programs, before their process is begun again."""


class Found(NamedTuple):
    """A fault, and the call that shows it."""

    call: Call
    fault: Fault


def chosen(name: str | None) -> list[int]:
    """The numbers of the entries of a public name, of one of its methods, of a room, or all."""
    words = (None, "all")
    numbers = [
        number
        for number, entry in enumerate(ENTRIES)
        if name in words or name in (entry.name, entry.name.partition(".")[0], ROOM_OF[entry.name])
    ]
    if not numbers:
        raise SystemExit(f"There is no public name and no room {name!r}.")
    return numbers


def drawn(numbers: list[int], seed: int, calls: int | None, *, bad: bool = False) -> list[tuple[int, Call]]:
    """Bent calls, the entries taking turns, so that few calls meet every name and more calls meet it again.

    With `bad`, only those that must be refused, which need no right answer to compare with.
    """

    def numbered(number: int) -> Iterator[tuple[int, Call]]:
        return ((number, call) for call in ENTRIES[number].calls(seed) if call.verdict == BAD or not bad)

    turns = chain.from_iterable(zip_longest(*map(numbered, numbers)))
    return list(islice((turn for turn in turns if turn is not None), calls))


def by_entry(calls: list[tuple[int, Call]]) -> list[tuple[int, Call]]:
    """The calls of each entry together, so that they share its compiled programs and its right answer."""
    return sorted(calls, key=lambda numbered: numbered[0])


def right_call(number: int) -> Call:
    """The right call of an entry, as one that must give its own answer."""
    entry = ENTRIES[number]
    return Call(entry.name, "nothing", entry.source(), "same", 1e-12)


def storm(calls: list[tuple[int, Call]]) -> list[Found]:
    """Every call made, and the faults of those that were not answered rightly."""
    with Helper() as helper:
        faults = [(call, helper.ask(number, call)) for number, call in calls]
    return [Found(call, fault) for call, fault in faults if fault is not None]


class Helper:
    """The process that makes the calls, begun again where a call ended it or did not end.

    Thousands of calls fill its memory with compiled programs: it is begun again long before that is felt by a call.
    It lives in a folder of its own, for a call may take a word for the name of a file and write it.
    """

    def __init__(self):
        self.process, self.folder = None, tempfile.TemporaryDirectory()
        self.size, self.begun = 0, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        self.folder.cleanup()

    def ask(self, number: int, call: Call) -> Fault | None:
        """The fault of one call; a crash, or a lack of memory, counts where the call alone makes it."""
        used = self.process is not None
        fault = self._asked(number, call)
        if used and fault is not None and (fault.word == "CRASH" or _of_memory(fault)):
            self.end()
            fault = self._asked(number, call)
        if self.process is not None and self._left_behind() > FULL * 2**30:
            self.end()
        return fault

    def _asked(self, number: int, call: Call) -> Fault | None:
        if self.process is None:
            self._begin()
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([number, *call]).encode() + b"\n")
        self.process.stdin.flush()
        answer = self._answer(PATIENCE)
        return Fault(*answer) if answer else None

    def _begin(self):
        flags = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
        env = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "TMPDIR": self.folder.name}
        words, pipe = [sys.executable, os.path.abspath(__file__), "--serve"], subprocess.PIPE
        streams = {"stdin": pipe, "stdout": pipe, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(words, **streams, env=env, cwd=self.folder.name)
        assert self._answer(120) == "ready"
        self.begun += 1
        self.size = address_space(self.process.pid)

    def _left_behind(self) -> int:
        """The bytes that the calls so far have added to the process."""
        assert self.process is not None
        return address_space(self.process.pid) - self.size

    def _answer(self, seconds: float):
        assert self.process is not None
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        line = self.process.stdout.readline() if ready else b""
        if line:
            return json.loads(line)
        code = self.process.poll() if not ready else self.process.wait(10)
        self.end()
        return ["HANG", "no answer, and no end"] if not ready else ["CRASH", f"the process ended with code {code}"]

    def end(self):
        """End the process."""
        if self.process is not None:
            with self.process:
                self.process.kill()
            self.process = None


def serve():
    """Answers calls, one a line, each within its time and memory."""
    judge = Judge({str(number): entry.source() for number, entry in enumerate(ENTRIES)})
    _limit_memory()
    signal.signal(signal.SIGPROF, _late)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(json.dumps("ready"), file=out, flush=True)
    for line in sys.stdin:
        number, *call = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            fault = judge.fault(Call(*call), str(number))
        except Late:
            fault = Fault("LATE", "no answer in time")
        except BaseException as error:
            fault = Fault("STORM", f"the storm itself: {type(error).__name__}: {error}")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(fault), file=out, flush=True)


def _limit_memory():
    import jax.numpy as jnp

    import haarflow

    assert haarflow
    (jnp.ones((8, 8)) @ jnp.ones((8, 8))).block_until_ready()
    most = address_space("self") + GIGABYTES * 2**30
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def address_space(process: int | str) -> int:
    """The bytes that a process has asked for, which is what its limit counts; none of one that is ending."""
    with open(f"/proc/{process}/status") as lines:
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmSize")), 0)


def _of_memory(fault: Fault) -> bool:
    return any(word in fault.detail for word in ("MemoryError", "RESOURCE_EXHAUSTED", "Out of memory", "bad_alloc"))


def _late(*_):
    raise Late


def told(found: list[Found]) -> str:
    """The faults as a table by name, and then one by one with the code that shows them."""
    words = sorted({fault.word for _, fault in found})
    rows = [("", *words)]
    for name in dict.fromkeys(call.name for call, _ in found):
        counts = Counter(fault.word for call, fault in found if call.name == name)
        rows.append((name, *(str(counts[word] or "") for word in words)))
    wide = [max(len(row[i]) for row in rows) for i in range(len(words) + 1)]
    table = ["  ".join(cell.ljust(w) for cell, w in zip(row, wide, strict=True)).rstrip() for row in rows]
    lines = [
        f"{fault.word} {call.name} ({call.bent}, {call.verdict})\n    {call.source}\n    {fault.detail}"
        for call, fault in found
    ]
    return "\n".join([*table, "", *lines])


def show(source: str):
    """One call as it would be met by a caller, traceback and all."""
    from small import Things

    print(script(source))
    print(Things().value(source))


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", help="a public name, one of its methods, or a room")
    parser.add_argument("--calls", type=int, help="how many; all there are, if not given")
    parser.add_argument("--right", action="store_true", help="make the right calls first")
    parser.add_argument("--bad", action="store_true", help="only calls that must be refused")
    parser.add_argument("--run", help="make this one call, with its traceback")
    parser.add_argument("--json", action="store_true", help="tell the faults as JSON")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve()
    if given.run:
        return show(given.run)
    numbers = chosen(given.name)
    calls = [(number, right_call(number)) for number in numbers if given.right or not ENTRIES[number].args]
    calls += drawn(numbers, given.seed, given.calls, bad=given.bad)
    begun = time.monotonic()
    found = storm(by_entry(calls))
    words = f"{told(found)}\n{len(calls)} calls in {time.monotonic() - begun:.0f} s, {len(found)} faults"
    print(
        json.dumps({"calls": len(calls), "faults": len(found), "gaps": gaps(), "told": words}) if given.json else words
    )


if __name__ == "__main__":
    main()
