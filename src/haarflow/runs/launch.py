"""One script in several processes of this machine, joined by JAX's own runtime: each sees the devices of all."""

import contextlib
import os
import runpy
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from haarflow.errors import Refusal
from haarflow.runs import machine


def launch(script: Path, arguments: Sequence[str], *, processes: int) -> int:
    """Run the script everywhere, one thread a process; the first speaks on standard output, all on standard error."""
    if not os.path.isfile(script):
        raise Refusal(f"launch runs a Python script; {script} is not a file. Write `haarflow launch SCRIPT.py`.")
    from haarflow.runs.workers import refuse_too_many

    refuse_too_many(processes, "processes")
    address, crew = f"127.0.0.1:{_free_port()}", []
    try:
        for index in range(processes):
            command = [sys.executable, "-m", __name__, address, str(processes), str(index), str(script), *arguments]
            output = None if index == 0 else subprocess.DEVNULL
            crew.append(subprocess.Popen(command, env={**os.environ, **machine.one_thread_each()}, stdout=output))
        return _first_end(crew)
    finally:
        for process in crew:
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()


def _first_end(crew: list[subprocess.Popen]) -> int:
    """0 when all have ended well; the code of the first that has not, without waiting for the others."""
    while True:
        codes = [process.poll() for process in crew]
        failed = [code for code in codes if code]
        if failed or None not in codes:
            return failed[0] if failed else 0
        time.sleep(0.05)


def _free_port() -> int:
    from multiprocessing.connection import Listener

    with Listener(("127.0.0.1", 0)) as listener:
        return int(listener.address[1])


def join(address: str, processes: int, index: int, script: str, arguments: Sequence[str]) -> None:
    """Be one of the processes: meet the others, then run the script as `python SCRIPT` would."""
    import jax

    jax.distributed.initialize(address, processes, index)
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).parent))
    try:
        runpy.run_path(script, run_name="__main__")
    except BaseException as error:
        _leave(error)


def _leave(error: BaseException) -> None:
    """End a failed process at once: an orderly end would wait for the others, which wait for this one."""
    code = error.code if isinstance(error, SystemExit) else 1
    if not isinstance(error, SystemExit):
        traceback.print_exc()
    elif isinstance(code, str):
        print(code, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    if code:
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    join(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5:])
