"""Whole questions, each in processes of its own: their CPU seconds, cold and asked again.

CPU seconds include those of all processes that a question starts. Each figure stands beside that of
importing JAX in the same run, so that machines can be compared.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

Figures = dict[str, float]
_COMMAND = str(Path(sys.executable).with_name("collsynth"))
_TWICE = """
import time, synth
ask = lambda: synth.plan("dgx-h100:4", model="llama3-8b")
first = ask()
begun = time.process_time()
assert ask() == first
print(time.process_time() - begun)
"""


def questions(*words: str) -> Figures:
    """A command with an empty cache, and again with other flags: those after ``again``."""
    cut = words.index("again") if "again" in words else len(words)
    asked, others = words[:cut], words[cut + 1 :]
    figures: Figures = {}
    with TemporaryDirectory() as folder:
        environment = os.environ | {"COLLSYNTH_CACHE": folder}
        jax = _cpu_seconds([sys.executable, "-c", "import jax"], environment)
        figures["cold_seconds"] = _cpu_seconds([_COMMAND, *asked], environment)
        figures["cold_over_jax"] = figures["cold_seconds"] / jax
        if others:
            figures["again_seconds"] = _cpu_seconds([_COMMAND, *asked, *others], environment)
    figures["largest_MB"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
    return figures


def twice() -> Figures:
    """The same plan twice in one Python process: the CPU seconds of the second."""
    with TemporaryDirectory() as folder:
        environment = os.environ | {"COLLSYNTH_CACHE": folder}
        said = subprocess.run(
            [sys.executable, "-c", _TWICE], env=environment, capture_output=True, check=True
        )
    return {"second_seconds": float(said.stdout)}


def first_plan(*words: str) -> Figures:
    """Seconds from the start of the process until the first plan is printed."""
    with TemporaryDirectory() as folder:
        environment = os.environ | {"COLLSYNTH_CACHE": folder}
        command = [_COMMAND, *words, "--json-lines"]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
            before = os.times()
            assert process.stdout is not None
            line = process.stdout.readline()
            taken = os.times().elapsed - before.elapsed
            process.kill()
    assert "best" in json.loads(line)
    return {"first_seconds": taken}


def _cpu_seconds(words: Sequence[str], environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
