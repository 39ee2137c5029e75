"""What a flow returns can be read by a type checker: a trajectory or one for each lane, of one cloud or of players."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
CODE = """
import haarflow as hf

cloud, euler, field = hf.uniform([[0.0]]), hf.Euler(), hf.Descend(hf.Penalty(1.0))
players = {"x": cloud, "y": cloud}
reveal_type(hf.flow(field, euler, cloud, key=0, dt=0.1, steps=1))
reveal_type(hf.flow([field], euler, players, key=0, dt=[0.1], steps=1))
reveal_type(hf.flow({"a": field}, {"a": euler}, cloud, key=0, dt=0.1, steps=1))
reveal_type(hf.flow({"a": field}, euler, {"a": players}, key=0, dt=0.1, steps=1))
reveal_type(hf.flow({"a": field}, euler, players, key=0, dt=0.1, steps=1))
reveal_type(hf.extend.advance(players, field(0, players), 0.1))
hf.flow(field, euler, cloud, key=0, dt=0.1)
"""
TYPES = [
    "Trajectory[Cloud]",
    "Trajectory[dict[str, Cloud]]",
    "dict[str, Trajectory[Cloud]]",
    "dict[str, Trajectory[dict[str, Cloud]]]",
    "dict[str, Trajectory[Any]]",
]


@pytest.mark.slow
def test_a_type_checker_reads_what_flow_returns(tmp_path):
    (tmp_path / "user.py").write_text(CODE)
    (tmp_path / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{SOURCE}"]}}')
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "user.py"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert re.findall(r'Type of "hf\.flow.*" is "(.*)"', said) == TYPES
    assert re.findall(r":(\d+):\d+ - error: No overloads for \"(\w+)\"", said) == [("11", "advance"), ("12", "flow")]
