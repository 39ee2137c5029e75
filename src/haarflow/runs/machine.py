"""The machine as a run sees it: float64, one thread per worker, a compilation cache, clocks and versions."""

import contextlib
import ctypes
import gc
import glob
import math
import os
import platform
import re
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from haarflow.dynamics import progress
from haarflow.errors import Refusal

NO_CACHE = "HAARFLOW_NO_CACHE"
ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "NPROC": "1",  # the size of XLA's thread pool, which no flag of its own sets
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
LOWERED, COMPILED = "/jax/core/compile/jaxpr_to_mlir_module_duration", "/jax/core/compile/backend_compile_duration"
PACKAGES = ("haarflow", "jax", "jaxlib", "numpy", "scipy", "equinox", "POT")


def one_thread() -> None:
    """Ask for one thread, before the libraries that would take more are loaded."""
    os.environ.update(one_thread_each())


def one_thread_each() -> dict[str, str]:
    """The environment of a process with one thread; flags that are there already stay."""
    flags = os.environ.get("XLA_FLAGS", "").split()
    flags += [flag for flag in ONE_THREAD["XLA_FLAGS"].split() if flag not in flags]
    return {**ONE_THREAD, "XLA_FLAGS": " ".join(flags)}


def prepare() -> None:
    """float64 and the compilation cache; call it before any array is made."""
    import jax

    jax.config.update("jax_enable_x64", True)
    home = cache_folder()
    if home is not None:
        jax.config.update("jax_compilation_cache_dir", str(home))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def cache_folder() -> Path | None:
    """Where compiled programs are kept between runs, or None if it is not wanted or not writable."""
    if os.environ.get(NO_CACHE):
        return None
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "haarflow" / "jax"
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return home if os.access(home, os.W_OK) else None


MAPPED = 15_000  # pieces of memory; compiled programs take about 160 kB for each, and Linux allows 65 530


def mappings() -> int:
    """How many pieces of memory this process has mapped; 0 where the system does not say."""
    try:
        with open("/proc/self/maps", "rb") as pieces:
            return sum(1 for _ in pieces)
    except OSError:
        return 0


def forget_programs(most: int = MAPPED) -> bool:
    """Drop all compiled programs where they fill the process, and give their memory back; whether it did so."""
    if mappings() <= most:
        return False
    import jax

    jax.clear_caches()
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # what glibc has and others may not
        ctypes.CDLL(None).malloc_trim(0)
    return True


def heal_cache() -> None:
    """Drop a compiled program that a killed process left half-written, so that it is written anew."""
    home, usual = cache_folder(), warnings.showwarning

    def shown(message: Any, *details: Any) -> None:
        damaged = re.search(r"persistent compilation cache entry for '([^']+)'", str(message))
        if damaged is None or home is None:
            return usual(message, *details)
        for path in home.glob(f"{glob.escape(damaged[1])}-*"):
            path.unlink(missing_ok=True)

    warnings.showwarning = shown


class Stopwatch:
    """Seconds spent compiling and seconds spent running, apart, inside a `with` block; it tells when XLA compiles."""

    def __enter__(self):
        """Start."""
        import jax.monitoring

        self.spans: list[tuple[float, float]] = []
        self.start = self.stop = time.monotonic()
        jax.monitoring.register_event_duration_secs_listener(self._heard)
        return self

    def __exit__(self, *reason: Any) -> None:
        """Stop."""
        import jax.monitoring

        self.stop = time.monotonic()
        jax.monitoring.unregister_event_duration_listener(self._heard)

    def _heard(self, event: str, duration_secs: float, **facts: Any) -> None:
        """Add a span of tracing, lowering or compiling, which has just ended; an outer span swallows those inside it.

        JAX tells the end of each stage and not its beginning: XLA begins to compile when a program has been lowered.
        """
        if event in (LOWERED, COMPILED):
            progress.say(progress.COMPILING if event == LOWERED else "")
        if event.startswith("/jax/core/compile/"):
            now = time.monotonic()
            while self.spans and self.spans[-1][0] >= now - duration_secs:
                self.spans.pop()
            self.spans.append((now - duration_secs, now))

    @property
    def seconds(self) -> dict[str, float]:
        """The two numbers."""
        compiling = math.fsum(end - start for start, end in self.spans)
        return {"compile": round(compiling, 4), "run": round(max(self.stop - self.start - compiling, 0.0), 4)}


def forget_peak() -> None:
    """Start the peak of memory anew, where the system can: a worker then tells each part's own."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> float | None:
    """The most memory this process has held since the peak was forgotten, in MB; None where the system does not say."""
    with contextlib.suppress(OSError, TypeError):
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        return round(int(found[1]) / 2**10, 1)  # pyright: ignore[reportOptionalSubscript]
    try:
        import resource
    except ImportError:
        return None
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


def open_files(count: int) -> None:
    """Make room for so many files open at once, which systems allow when they are asked."""
    try:
        import resource
    except ImportError:
        return
    wanted, (soft, hard) = count + 256, resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY not in (soft, hard) and hard < wanted:
        raise Refusal(
            f"A sweep keeps a file open for each of its runs; this system allows {hard} at once and {wanted} are "
            "needed. Write several smaller sweeps."
        )
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def versions() -> dict[str, str]:
    """The versions a record depends on."""
    from importlib.metadata import version

    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def facts() -> dict[str, Any]:
    """The machine in a few words."""
    return {"system": platform.platform(), "processor": platform.machine(), "cores": os.cpu_count()}
