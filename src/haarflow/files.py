"""Files that are whole or absent: nothing is ever half-written."""

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: bytes):
    """Put the content at the path in one move: readers see the old file or the new one, never a part."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
