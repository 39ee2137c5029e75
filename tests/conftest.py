"""Every test runs in float64 and compiles in a hurry; the slow tier checks shapes and types of all rooms at run time.

Most tests compile many small programs and run each of them once: compiling is most of what they cost, and XLA's
optimisations are most of compiling. Tests that run long, or are about the compiled program itself, carry the mark
`optimised`: they are compiled as a user's programs are. `make test-slow` compiles all of them so.

A law that is asked of many members is asked of a tenth of them by default, the first and the last among them, and of
all in the slow tier, unless the test carries the mark `each`.
"""

import collections
import contextlib
import gc
import os
import sys
import threading

import jax
import pytest
from jaxtyping import install_import_hook

PLAIN = "--xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters"  # XLA ignores it where there are none
WHOLE = "--xla_cpu_parallel_codegen_split_count=1"  # small programs are not cut into parts: 13% of compiling
COPIED = ("laws", "oracles")  # folders in which many cases of a test are copies of one law
FEW = 4  # cases that are all asked
ASKED = 10  # of more, one in ten


def in_a_hurry(config):
    """Whether the default tests are run."""
    return "not slow" in config.option.markexpr


def pytest_configure(config):
    """Before anything is imported or compiled; the processes that tests start inherit it."""
    early = [name for name in sys.modules if name.partition(".")[0] == "haarflow"]
    assert not early, f"a conftest.py imports {early[0]} before its types can be checked: import it where it is used"
    if not in_a_hurry(config):
        install_import_hook("haarflow", "beartype.beartype")
    else:
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {PLAIN} {WHOLE}".strip()
        os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
        jax.config.update("jax_disable_most_optimizations", True)
        share_contexts()
    draw_without_reading()


def draw_without_reading():
    """Hypothesis draws numbers of its own alone: to find those that our files name, it reads all of them first.

    That takes seconds in every process, for three files of tests that draw. This part of hypothesis may change.
    """
    with contextlib.suppress(ImportError, AttributeError):
        from hypothesis.internal.conjecture import providers

        providers.is_local_module_file = lambda path: False


def share_contexts():
    """One MLIR context for all programs of a thread: JAX makes one for each, a third of what a small program costs.

    That is a part of JAX which may change; without it the tests are slower and otherwise the same.
    """
    with contextlib.suppress(ImportError, AttributeError):
        from jax._src.interpreters import mlir

        make, kept = mlir.make_ir_context, threading.local()

        def shared():
            if not hasattr(kept, "context"):
                kept.context = make()
            return kept.context

        mlir.make_ir_context = shared


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of many cases of one law those between are slow, but for every tenth.

    Refusals stay: in the slow tier a wrong type is told by the checks of types, before the sentence.
    """
    cases = collections.defaultdict(list)
    for item in items:
        whole = "refused" in item.name or any(map(item.get_closest_marker, ("slow", "each")))
        if item.path.parent.name in COPIED and not whole:
            cases[item.path, getattr(item, "originalname", item.name)].append(item)
    for copies in cases.values():
        for place, item in enumerate(copies[:-1]):
            if place % ASKED and len(copies) > FEW:
                item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    """What is imported by now stays to the end: the collector need not look at it again and again, and less often."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Fixtures included, whatever their scope."""
    if not in_a_hurry(item.config) or not item.get_closest_marker("optimised"):
        return (yield)
    jax.config.update("jax_disable_most_optimizations", False)
    try:
        return (yield)
    finally:
        jax.config.update("jax_disable_most_optimizations", True)


def pytest_runtest_logfinish():
    """Forget compiled programs before they fill the process: each maps memory, and Linux allows 65 530 mappings."""
    global finished
    finished += 1
    from haarflow.runs.machine import forget_programs  # not before the hook

    if finished % 100 == 0:
        forget_programs(35_000)


finished = 0
gc.disable()  # until everything is imported
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
