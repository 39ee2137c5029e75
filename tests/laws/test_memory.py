"""Memory beyond the cloud is that of a block, not of the cloud times the batch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "million.py"


@pytest.mark.slow
def test_a_million_particles_fit_in_four_gigabytes():
    env = {**os.environ, "JAX_ENABLE_X64": "0"}
    done = subprocess.run([sys.executable, str(SCRIPT)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 0.3 < float(done.stdout) < 4
