"""Killed runs resume, and their records are those of an undisturbed run, bit for bit."""

import os
import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from haarflow.cli import answer
from haarflow.files import write_whole
from haarflow.runs import catalogue, machine

TOYS = Path(__file__).parents[1] / "toys"
HEARING = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from haarflow.cli import main
main()
"""


def environment(tmp_path, **more):
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), **more}


def start(words, env):
    """A command in a process group of its own, which hears Ctrl-C even where the tests themselves do not."""
    command = [sys.executable, "-c", HEARING, *words]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def finish(words, env):
    """Let a command run to its end, whether or not the verdicts hold."""
    process = start(words, env)
    _, errors = process.communicate()
    assert process.returncode in (0, 1), errors.decode()


def kill_at_random(words, env, *, kills, longest, seed):
    """Start the command and kill it, so many times or until it finishes; how often it was killed."""
    moments, killed = random.Random(seed), 0
    while killed < kills:
        process = start(words, env)
        try:
            process.communicate(timeout=moments.uniform(0.2, longest))
            return killed
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            killed += 1
    return killed


def records(out):
    """The bytes of every record below a folder."""
    found = {path.relative_to(out): path.read_bytes() for path in out.glob("*/*/record.json")}
    return found | {path.relative_to(out): path.read_bytes() for path in out.glob("*/*/arrays.npz")}


def test_a_killed_run_resumes_to_the_same_bytes(tmp_path, monkeypatch):
    env = environment(tmp_path, HAARFLOW_EXPERIMENTS=str(TOYS))
    words = ["run", "slow-parts", "--set", "count=8", "--workers", "1", "--out"]
    monkeypatch.setenv(catalogue.EXTRA, str(TOYS))
    monkeypatch.setenv(machine.NO_CACHE, "1")
    assert answer([*words[:-2], "0", "--out", str(tmp_path / "calm")]) == 0  # undisturbed, and in this process
    process = start([*words, str(tmp_path / "killed")], env)
    _begun(process)
    time.sleep(0.2)  # in the middle of a part
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not records(tmp_path / "killed")
    finish([*words, str(tmp_path / "killed")], env)
    assert records(tmp_path / "killed") == records(tmp_path / "calm")
    assert len(records(tmp_path / "calm")) == 2
    assert not list((tmp_path / "killed").glob("*/*/parts"))


@pytest.mark.slow
def test_reproduce_killed_twenty_times_resumes_to_the_same_bytes(tmp_path):
    env = environment(tmp_path)
    words = ["reproduce", "--quick", "--out"]
    begin = time.monotonic()
    finish([*words, str(tmp_path / "calm")], env)
    longest = (time.monotonic() - begin) / 12  # so that twenty kills come before the end
    killed = kill_at_random([*words, str(tmp_path / "killed")], env, kills=20, longest=longest, seed=11)
    finish([*words, str(tmp_path / "killed")], env)
    print(f"killed {killed} times, at most {longest:.0f} seconds after each start")
    assert killed == 20
    assert records(tmp_path / "killed") == records(tmp_path / "calm")
    assert records(tmp_path / "calm")


WRITING = """
import os, signal, sys
from pathlib import Path
from haarflow import files
os.replace = lambda *_: os.kill(os.getpid(), getattr(signal, sys.argv[2]))
files.write_whole(Path(sys.argv[1]), b"half")
"""


def _write(path, how):
    """A process that is killed (or stopped) after it has written a file and before it is in its place."""
    return subprocess.Popen([sys.executable, "-c", WRITING, str(path), how])


def test_what_a_killed_writer_leaves_is_tidied_by_the_next_command(tmp_path, monkeypatch):
    monkeypatch.setenv(catalogue.EXTRA, str(TOYS))
    monkeypatch.setenv(machine.NO_CACHE, "1")
    report = tmp_path / "out" / "report.html"
    settings = ["--set", "count=1", "--set", "wait=0.0"]
    words = ["run", "slow-parts", *settings, "--workers", "0", "--out", str(report.parent)]
    assert answer(words) == 0
    assert _write(report, "SIGKILL").wait() == -signal.SIGKILL
    (left,) = report.parent.glob(".report.html.*")
    assert not report.exists()
    assert answer(words) == 0
    assert not left.exists()
    _write(report, "SIGKILL").wait()
    assert answer(["report", str(report.parent)]) == 0
    assert not list(report.parent.glob(".report.html.*"))
    assert report.exists()


def test_what_a_live_writer_has_begun_is_left_alone(tmp_path):
    path = tmp_path / "report.html"
    with _write(path, "SIGSTOP") as process:
        deadline = time.monotonic() + 30
        while not list(tmp_path.glob(".report.html.*")) and time.monotonic() < deadline:
            time.sleep(0.05)
        write_whole(path, b"whole")
        (left,) = tmp_path.glob(".report.html.*")
        process.kill()
        process.wait()
    old, young, other = (tmp_path / f".{name}" for name in ("report.html.old", "report.html.young", "record.json.old"))
    for file in (old, young, other):
        file.write_text("")
    os.utime(old, (0, 0))
    os.utime(other, (0, 0))
    write_whole(path, b"whole again")
    assert not left.exists()
    assert not old.exists()
    assert young.exists()
    assert other.exists()
    assert path.read_bytes() == b"whole again"


def test_a_written_file_is_read_by_whom_any_new_file_is(tmp_path):
    usual, ours = tmp_path / "usual", tmp_path / "ours"
    usual.write_text("")
    write_whole(ours, b"1")
    assert ours.stat().st_mode == usual.stat().st_mode
    ours.chmod(0o640)
    write_whole(ours, b"2")
    assert stat.S_IMODE(ours.stat().st_mode) == 0o640


def _alive(pid):
    """Whether a process still runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _children(pid):
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if line.split()[1] == str(pid)]


def _begun(process):
    """Wait until the first part is done, so that workers are surely at work."""
    for line in process.stderr:
        if b"done" in line:
            return
    pytest.fail("the run ended before its first part")


def test_workers_die_with_their_parent(tmp_path):
    env = environment(tmp_path, HAARFLOW_EXPERIMENTS=str(TOYS))
    process = start(["run", "slow-parts", "--set", "wait=2", "--out", str(tmp_path)], env)
    _begun(process)
    children = _children(process.pid)
    with process.stdout, process.stderr:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert len(children) >= 2
    deadline = time.monotonic() + 10
    while any(map(_alive, children)) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [pid for pid in children if _alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


def test_ctrl_c_stops_at_once_and_says_that_the_run_resumes(tmp_path):
    env = environment(tmp_path, HAARFLOW_EXPERIMENTS=str(TOYS))
    process = start(
        ["run", "slow-parts", "--set", "wait=3", "--set", "count=60", "--workers", "1", "--out", str(tmp_path)], env
    )
    _begun(process)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)  # the parts that are left would take three times as long
    assert process.returncode == 130
    assert errors.decode().strip().splitlines()[-1] == (
        "Stopped. Finished parts are kept: give the same command again and it resumes."
    )
    assert b"Traceback" not in errors
    assert len(list(tmp_path.glob("slow-parts/*/parts/*.part"))) >= 1
