"""A run of the lab without a page, from the TOML file or the command that the page gave."""

from collections.abc import Iterable
from pathlib import Path

from haarflow.errors import Refusal
from haarflow.files import write_whole
from haarflow.runs.config import merged, parse, read_toml


def run_to_file(out: Path, config: Path | None, settings: Iterable[str], data: Path | None) -> str:
    """Run a state to its end and write its curves and last clouds into an .npz; a sentence about it."""
    from haarflow.lab.state import validated

    values = read_toml("--config", config) if config else {}
    for setting in settings:
        values = merged(values, parse(setting))
    state = validated(values)
    import jax

    from haarflow.runs import machine

    machine.prepare()
    jax.config.update("jax_enable_x64", state.precision == "float64")
    import haarflow as hf
    from haarflow.lab.lab_run import finished
    from haarflow.lab.takeaway import as_npz
    from haarflow.runs.ledger import pack

    if state.data == "upload" and state.task == "learn" and data is None:
        raise Refusal("This run is of uploaded data; write --data FILE, the file that was uploaded.")
    run = finished(state, None if data is None else hf.load(data, outputs=state.upload_outputs))
    write_whole(out, pack(as_npz(run)))
    return f"{state.steps} steps, {len(run.rows)} records: {out}"
