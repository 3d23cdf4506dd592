"""Running programs here: what is reported, what is refused, and that no process outlives a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import numpy as np
import pytest

from forking import FLEET, jax_python, python_with, torch_python
from grammar import Goal
from grammar.tensors.sharding import ReductionKind
from hierarchies import InputError, Reduction
from patience import until
from places import ROOT
from strategies import reducing, source, striped
from synth.collective.emit.source import EmitSource, Files
from synth.collective.emit.targets import emit
from synth.collective.run import BACKENDS, RunError, TrialRequest, run
from synth.collective.run.backends import find_mpiexec
from synth.collective.run.processes import Command, last_message, supervise
from synth.collective.run.trial import PayloadSlice
from synth.collective.semantics.schedule import Exchange

NESTED = "reduce-scatter d0 inside; all-reduce d0 parallel(root); all-gather d0 inside"
LINUX = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into Linux's /proc")


def installed(backend: str) -> bool:
    needs = all(find_spec(module) for module in BACKENDS[backend].needs)
    return needs and (backend != "mpi" or find_mpiexec() is not None)


@pytest.fixture
def processes_are_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of gloo and JAX, without importing torch or JAX: seconds of a processor each."""
    jax_commands = BACKENDS["jax"].commands

    def ranks(devices: int, file: Path, flags: Sequence[str]) -> list[Command]:
        store = (file.parent / "rendezvous").as_uri()
        given = (str(file), *flags, "--backend", "gloo", "--init-method", store)
        words = (*torch_python(), str(FLEET / "forked.py"), str(devices), *given)
        return [Command("the ranks", words, {"OMP_NUM_THREADS": "1"})]

    def jax(devices: int, file: Path, flags: Sequence[str]) -> list[Command]:
        assert jax_commands is not None
        [plain] = jax_commands(devices, file, flags)
        return [replace(plain, words=(*jax_python(), *plain.words[1:]))]

    backends = {"gloo": ranks, "jax": jax}
    for name, commands in backends.items():
        monkeypatch.setitem(BACKENDS, name, replace(BACKENDS[name], commands=commands))


def skip_without(backend: str) -> None:
    if not installed(backend):
        pytest.skip(f"needs the extra {BACKENDS[backend].target}")


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ("import sys; print(sys.argv, sys.stdin.read())", 0, "['-c', 'a', 'b'] asked\n"),
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('no')", 1, "no\n"),
        ("import os; os._exit(0)", 1, "the script ended without an exit code\n"),
    ],
)
def test_a_forked_python_looks_like_python(script: str, code: int, said: str) -> None:
    words = [*python_with((), ()), "-c", script, "a", "b"]
    done = subprocess.run(words, input="asked", capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (code, said)


@LINUX
def test_a_forked_python_ends_with_its_parent() -> None:
    seconds = 4000.5 + os.getpid() / 1e7
    inner = INNER.format(seconds=seconds)
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    client = subprocess.Popen([*python_with((), ()), "-c", script])
    until(lambda: len(sleepers(seconds)) == 2)  # the client names it too
    client.kill()
    client.wait()
    until(lambda: not sleepers(seconds))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_is_equal_to_the_plain_all_reduce(backend: str) -> None:
    check_equal(backend, "float32")


@pytest.mark.usefixtures("processes_are_forked")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_on_integers_is_equal_to_the_plain_all_reduce(backend: str) -> None:
    check_equal(backend, "int64")


def check_equal(backend: str, dtype: str) -> None:
    skip_without(backend)
    seen = run(
        backend, source(NESTED, Reduction.plain(2, 2)), TrialRequest(8004, dtype, 1, check=True)
    )
    assert seen.bytes == 8004 // np.dtype(dtype).itemsize * np.dtype(dtype).itemsize
    assert seen.equal
    assert seen.bitwise_equal
    assert seen.error is not None
    assert 0 <= seen.error <= 1
    assert min(seen.seconds, seen.plain_seconds) > 0


REQUESTS = {
    Goal.REDUCE_SCATTER: "reduce-scatter d0 parallel(root); reduce-scatter d0 inside",
    Goal.ALL_GATHER: "all-gather d0 inside; all-gather d0 master(root); broadcast d0 inside",
    Goal.REDUCE: "reduce d0 inside; reduce d0 master(root)",
    Goal.BROADCAST: "broadcast d0 master(root); broadcast d0 inside",
    Goal.ALL_TO_ALL: "all-to-all d0 parallel(root); all-to-all d0 inside",
}


@pytest.mark.usefixtures("processes_are_forked")
@pytest.mark.parametrize(
    ("segments", "dtype"),
    [
        pytest.param(1, "int64", marks=pytest.mark.slow),
        pytest.param(1, "float32", marks=pytest.mark.slow),
        (3, "bfloat16"),
    ],
)
@pytest.mark.parametrize("goal", REQUESTS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_of_any_request_is_equal_to_the_plain_one(
    backend: str, goal: Goal, segments: int, dtype: str
) -> None:
    """Of elements that neither ranks nor segments divide."""
    skip_without(backend)
    dtype = dtype if dtype in BACKENDS[backend].dtypes else "int32"
    size = {"int64": 8, "bfloat16": 2}.get(dtype, 4)
    given = source(REQUESTS[goal], Reduction.plain(2, 2), 2003 * size, segments, goal)
    seen = run(backend, given, TrialRequest(2003 * size, dtype, 1, check=True))
    assert (seen.bytes, seen.equal, seen.bitwise_equal) == (2003 * size, True, True)


WHOLE = {
    Goal.ALL_REDUCE: NESTED,
    Goal.REDUCE_SCATTER: REQUESTS[Goal.REDUCE_SCATTER],
    Goal.REDUCE: REQUESTS[Goal.REDUCE],
}
ADDING = {
    "gloo": (", op=dist.ReduceOp.MAX", "", "amax(dim=0)", "sum(dim=0)"),
    "mpi": (", MPI.MAX", ""),
    "jax": ("lax.pmax(buffer", "lax.psum(buffer", ".max(0)", ".sum(0)"),
}
"""Of each backend what makes its emitted program take maxima, each with what would add."""
PROGRAM_OF = {
    "gloo": ("    def _run(", "def program()"),
    "mpi": ("    def _run(", "\n\n\n"),
    "jax": ("def _program(", "def timed("),
}
"""Where the program begins in the file of each, and what comes after it."""


@pytest.mark.usefixtures("processes_are_forked")
@pytest.mark.parametrize("goal", WHOLE)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_of_maxima_is_equal_to_the_plain_one(backend: str, goal: Goal) -> None:
    """Of drawn numbers, about half of them below zero, that ranks do not divide."""
    skip_without(backend)
    given = reducing(source(WHOLE[goal], Reduction.plain(2, 2), 8012, 1, goal), ReductionKind.MAX)
    seen = run(backend, given, TrialRequest(8012, "float32", 1, check=True))
    assert (seen.bytes, seen.equal, seen.error, seen.bitwise_equal) == (8012, True, 0, True)


@pytest.mark.usefixtures("processes_are_forked")
@pytest.mark.parametrize("goal", WHOLE)
@pytest.mark.parametrize("backend", ADDING)
def test_a_run_that_adds_where_maxima_are_asked_for_is_seen(
    backend: str, goal: Goal, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_without(backend)

    def adding(target: str, given: EmitSource) -> Files:
        """The program adds; what it is compared with is left as it was."""
        [(name, text)] = emit(target, given).items()
        first, after = PROGRAM_OF[backend]
        begin = str(text).index(first)
        end = str(text).index(after, begin)
        program = str(text)[begin:end]
        for word, other in zip(*[iter(ADDING[backend])] * 2, strict=True):
            program = program.replace(word, other)
        assert program != str(text)[begin:end]
        return {name: str(text)[:begin] + program + str(text)[end:]}

    monkeypatch.setattr("synth.collective.emit.targets.emit", adding)
    given = reducing(source(WHOLE[goal], Reduction.plain(2, 2), 8012, 1, goal), ReductionKind.MAX)
    assert not run(backend, given, TrialRequest(8012, "float32", 1, check=True)).equal


@pytest.mark.parametrize("goal", [goal for goal in REQUESTS if goal is not Goal.BROADCAST])
def test_a_run_that_is_wrong_is_seen(goal: Goal) -> None:
    """Pieces in the order of reversed groups; of a reduce, one without its last step."""
    programs = {**REQUESTS, Goal.ALL_GATHER: "all-gather d0 inside; all-gather d0 parallel(root)"}
    given = source(programs[goal], Reduction.plain(2, 2), 64, 1, goal)
    *phases, last = [p for p in given.schedule.phases if isinstance(p, Exchange)]
    if goal is not Goal.REDUCE:
        phases = [replace(p, among=p.groups[:, ::-1]) for p in (*phases, last)]
    broken = replace(given, schedule=replace(given.schedule, phases=tuple(phases)))
    seen = run("numpy", broken, TrialRequest(64, "float32", 1))
    assert not seen.equal
    assert not seen.bitwise_equal


@pytest.mark.usefixtures("processes_are_forked")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_in_segments_is_equal_to_the_plain_all_reduce(backend: str) -> None:
    skip_without(backend)
    given = source(NESTED, Reduction.plain(2, 2), 8004, segments=5)
    seen = run(backend, given, TrialRequest(8004, "float32", 1, check=True))
    assert (seen.bytes, seen.equal, seen.bitwise_equal) == (8004, True, True)
    assert seen.segments in (None, 5)


@pytest.mark.usefixtures("processes_are_forked")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_in_stripes_is_equal_to_the_plain_all_reduce(backend: str) -> None:
    skip_without(backend)
    given = striped([(NESTED, 5000, 3), ("all-reduce root inside", 3004, 1)], Reduction.plain(2, 2))
    seen = run(backend, given, TrialRequest(8004, "float32", 1, check=True))
    assert (seen.bytes, seen.equal, seen.bitwise_equal) == (8004, True, True)
    if backend in ("gloo", "mpi"):
        assert seen.stripes == (PayloadSlice(1250, 3), PayloadSlice(751, 1))


@pytest.mark.usefixtures("processes_are_forked")
@pytest.mark.parametrize("backend", ["gloo", "mpi", "jax"])
def test_a_small_payload_is_left_to_the_first_stripe(backend: str) -> None:
    skip_without(backend)
    stripes = [(NESTED, 2**20, 4), ("all-reduce root inside", 2**19, 1), (NESTED, 2**19, 4)]
    given = striped(stripes, Reduction.plain(2, 2))
    seen = run(backend, given, TrialRequest(2**17, "float32", 1, check=True))
    assert seen.equal
    assert [stripe.elements for stripe in seen.stripes] == [2**15, 0, 0]


@pytest.mark.usefixtures("processes_are_forked")
@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_to_do_runs_in_any_number_of_segments(backend: str) -> None:
    skip_without(backend)
    assert run(backend, source("", Reduction.plain(), 64, 4), TrialRequest(64, check=True)).equal


@pytest.mark.usefixtures("processes_are_forked")
@pytest.mark.parametrize("backend", ["gloo", "mpi"])
def test_a_small_payload_is_cut_into_fewer_segments(backend: str) -> None:
    skip_without(backend)
    given = source(NESTED, Reduction.plain(2, 2), 2**20, segments=16)  # of 64 KiB
    seen = run(backend, given, TrialRequest(200_000, "float32", 1, check=True))
    assert (seen.segments, seen.equal) == (4, True)


@pytest.mark.usefixtures("processes_are_forked")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_payload_smaller_than_the_group_is_padded(backend: str) -> None:
    skip_without(backend)
    seen = run(
        backend, source(NESTED, Reduction.plain(2, 2)), TrialRequest(1, "float32", 1, check=True)
    )
    assert (seen.bytes, seen.equal) == (4, True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_dtype_that_cannot_be_reduced_is_refused(backend: str) -> None:
    skip_without(backend)
    with pytest.raises(InputError, match=r"cannot reduce 'complex64'; it takes float32"):
        run(backend, source(NESTED, Reduction.plain(2, 2)), TrialRequest(64, "complex64"))


def test_a_backend_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match=r"no backend 'glo'; did you mean gloo"):
        run("glo", source(NESTED, Reduction.plain(2, 2)), TrialRequest(64))


@pytest.mark.parametrize(("backend", "extra"), [("gloo", "torch"), ("jax", "jax"), ("mpi", "mpi")])
def test_a_backend_that_is_not_installed_names_its_extra(
    backend: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("synth.collective.run.backends.find_spec", lambda name: None)
    with pytest.raises(InputError, match=rf"not installed; pip install 'collsynth\[{extra}\]'"):
        run(backend, source(NESTED, Reduction.plain(2, 2)), TrialRequest(64))


def test_too_many_devices_and_too_many_bytes_are_refused() -> None:
    skip_without("mpi")
    with pytest.raises(InputError, match="128 devices are too many for backend 'mpi'"):
        run("mpi", source("all-reduce root inside", Reduction.plain(128)), TrialRequest(64))
    with pytest.raises(InputError, match="do not fit on this machine; at most 536870912"):
        run("numpy", source(NESTED, Reduction.plain(2, 2)), TrialRequest(2**30))


def test_a_replay_on_arrays_obeys_its_time_limit_and_a_stop() -> None:
    given, trial = source(NESTED, Reduction.plain(2, 2)), TrialRequest(2**20, repeat=1000)
    with pytest.raises(RunError, match=r"not done after 0\.1 s"):
        run("numpy", given, replace(trial, timeout_seconds=0.1))
    with pytest.raises(RunError, match="stopped before the end"):
        run("numpy", given, trial, lambda: False)


@pytest.mark.parametrize("dtype", BACKENDS["numpy"].dtypes)
def test_arrays_of_every_dtype_are_compared(dtype: str) -> None:
    given = source(NESTED, Reduction.plain(2, 3))
    assert run("numpy", given, TrialRequest(999, dtype, 1)).equal
    broken = replace(given, schedule=replace(given.schedule, phases=given.schedule.phases[:0]))
    assert not run("numpy", broken, TrialRequest(999, dtype, 1)).equal


FOREVER = (
    "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {inner!r}]); {then}"
)
INNER = "import time; time.sleep({seconds})"


def sleepers(seconds: float) -> list[int]:
    """The processes whose command line says to sleep just so long."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace")
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if f"sleep({seconds})" in words and state != "Z":
                found.append(int(entry.name))
    return found


def fleet(seconds: float, last: str) -> list[Command]:
    """Processes that start another and sleep, all but the last one, which does something else."""
    inner = INNER.format(seconds=seconds)
    words = (sys.executable, "-c", FOREVER.format(inner=inner, then=inner.partition("; ")[2]))
    sleeping = [Command(f"rank {rank}", words) for rank in range(3)]
    return [*sleeping, Command("rank 3", (sys.executable, "-c", last))]


@LINUX
@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("import sys; sys.exit('out of luck')", "rank 3 ended with code 1.*out of luck"),
        ("import os, time; time.sleep(1); os.kill(os.getpid(), 9)", "rank 3 was ended by SIGKILL"),
    ],
)
def test_a_rank_that_dies_ends_the_others(last: str, said: str, tmp_path: Path) -> None:
    seconds = 1000.5 + os.getpid() / 1e7
    begun = time.monotonic()
    with pytest.raises(RunError, match=said):
        supervise(fleet(seconds, last), tmp_path, timeout_seconds=100)
    assert time.monotonic() - begun < 60
    until(lambda: not sleepers(seconds))


OF_JAX = """a warning
Traceback (most recent call last):
  File "step.py", line 6, in <lambda>
ValueError: sources must be unique, got ((0, 0), (0, 1)).

The preceding stack trace is the source of the operation that triggered the exception.

--------------------

Traceback (most recent call last):
  File "step.py", line 7, in <module>
    jax.jit(f)(x)
    ^^^^^^^^^^^^^
ValueError: sources and destinations must be unique,
  got ((0, 0), (0, 1)).
--------------------
For simplicity, JAX has removed its internal frames from the traceback.
"""


def test_a_crash_is_reported_by_its_last_line(tmp_path: Path) -> None:
    told = "ValueError: sources and destinations must be unique, | got ((0, 0), (0, 1))."
    assert last_message(OF_JAX) == told
    by_rank = "".join(f"[rank1]: {line}\n" for line in OF_JAX.splitlines())
    assert last_message(f"[W socket.cpp] a warning\n{by_rank}[W socket.cpp] the end\n") == told
    assert last_message("one\n\n two\n") == "one | two"
    assert last_message("") == ""
    crash = Command("rank 0", (sys.executable, "-c", "{}['a'] + len(3)"))
    with pytest.raises(RunError, match=r"it said: KeyError: 'a'$"):
        supervise([crash], tmp_path, timeout_seconds=100)


@LINUX
def test_the_time_limit_and_a_stop_end_all(tmp_path: Path) -> None:
    seconds = 2000.5 + os.getpid() / 1e7
    with pytest.raises(RunError, match="3 of 4 processes were not done after 1 s"):
        supervise(fleet(seconds, "pass"), tmp_path, timeout_seconds=1)
    with pytest.raises(RunError, match="stopped before the end"):
        supervise(fleet(seconds, "pass"), tmp_path, 100, go_on=lambda: False)

    def interrupted() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        supervise(fleet(seconds, "pass"), tmp_path, 100, go_on=interrupted)
    until(lambda: not sleepers(seconds))


@LINUX
@pytest.mark.skipif(which("setpriv") is None, reason="needs util-linux's setpriv")
def test_processes_do_not_outlive_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    """Not even where they have only begun, and setpriv could not yet ask for a signal."""
    seconds = 3000.5 + os.getpid() / 1e7
    inner = INNER.format(seconds=seconds)
    late = tmp_path / "setpriv"
    late.write_text(f'#!/bin/sh\ntest "$1" = --help || sleep 0.5\nexec {which("setpriv")} "$@"\n')
    late.chmod(0o755)
    text = (
        "import sys; from pathlib import Path\n"
        "from synth.collective.run.processes import Command, last_message, supervise\n"
        f"words = (sys.executable, '-c', {inner!r})\n"
        f"supervise([Command('a', words), Command('b', words)], Path({str(tmp_path)!r}), 100)\n"
    )
    for path in (f"{tmp_path}:{os.environ['PATH']}", os.environ["PATH"]):
        supervisor = subprocess.Popen(
            [sys.executable, "-c", text], cwd=ROOT, env={**os.environ, "PATH": path}
        )
        until(lambda: len(sleepers(seconds)) == 3)  # it counts itself
        supervisor.send_signal(signal.SIGKILL)
        supervisor.wait()
        until(lambda: not sleepers(seconds))


@LINUX
@pytest.mark.parametrize("backend", ["gloo", "mpi"])
def test_a_rank_killed_during_a_run_ends_it(backend: str) -> None:
    """A real rank is killed from outside while all of them are at work."""
    skip_without(backend)
    killed: list[int] = []

    def kill_one() -> bool:
        ranks = [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and _is_rank(entry, os.getpid())
        ]
        if len(ranks) >= 2 and not killed:
            killed.append(ranks[-1])
            os.kill(ranks[-1], signal.SIGKILL)
        return True

    begun = time.monotonic()
    trial = TrialRequest(2**22, "float32", 1000, check=True, timeout_seconds=100)
    with pytest.raises(RunError):
        run(backend, source(NESTED, Reduction.plain(2, 2)), trial, kill_one)
    assert killed
    assert time.monotonic() - begun < 60


def _is_rank(entry: Path, ancestor: int) -> bool:
    """Whether a process runs an emitted file for this test."""
    try:
        words = (entry / "cmdline").read_bytes().split(b"\0")
        if not words[0].endswith(b"python") or not any(b"collsynth_" in w for w in words[1:]):
            return False
        parent = entry
        while int(parent.name) > 1:
            status = (parent / "status").read_text()
            number = int(status.split("PPid:")[1].split()[0])
            if number == ancestor:
                return True
            parent = Path("/proc") / str(number)
    except (OSError, IndexError):
        return False
    return False
