"""Questions in both spellings: the words of the command line, and the JSON of the service."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

COMMAND = (sys.executable, "-c", "from synth.cli.app import main; main()")
_MANY = """
import json, sys
from typer.testing import CliRunner
from synth.cli.app import app
for words in json.load(sys.stdin):
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.stderr
    sys.stdout.write(done.stdout)
"""
_SMALL = (
    ("dgx-h100:2", {"data": 16}, ("data",)),
    ("dgx-a100:2", {"data": 8, "model": 2}, ("data",)),
    ("p2-v100:2", {"data": 4, "model": 4}, ("data",)),
    ("p2-a100:2", {"data": 32}, ("data",)),
)


@dataclass(frozen=True)
class Asked:
    """One question for ``top``."""

    system: str
    axes: tuple[tuple[str, int], ...]
    reduce: tuple[str, ...]
    payload_bytes: int
    k: int = 10
    max_steps: int = 5
    stripes: bool = True

    @property
    def question(self) -> dict[str, Any]:
        """What the service is asked."""
        return {
            "system": self.system,
            "axes": dict(self.axes),
            "reduce": list(self.reduce),
            "bytes": self.payload_bytes,
            "k": self.k,
            "max_steps": self.max_steps,
            "stripes": self.stripes,
        }

    @property
    def body(self) -> bytes:
        return json.dumps(self.question).encode()

    @property
    def words(self) -> tuple[str, ...]:
        """What the command line is asked."""
        axes = ",".join(f"{name}={size}" for name, size in self.axes)
        sizes = ("--bytes", str(self.payload_bytes), "-k", str(self.k))
        more = ("--max-steps", str(self.max_steps), *(() if self.stripes else ("--no-stripes",)))
        placed = ("--axes", axes, "--reduce", ",".join(self.reduce))
        return ("top", self.system, *placed, *sizes, *more, "--json")

    def answered(self) -> bytes:
        """The bytes of the answer that the command line prints."""
        done = subprocess.run([*COMMAND, *self.words], capture_output=True, check=True)
        return done.stdout.rstrip(b"\n")


def all_answered(some: Sequence[Asked]) -> list[bytes]:
    """What the command line prints for each, by one process that is asked one after the other."""
    words = json.dumps([one.words for one in some]).encode()
    told = subprocess.run(
        [sys.executable, "-c", _MANY], input=words, capture_output=True, check=True
    )
    found = told.stdout.splitlines()
    assert len(found) == len(some)
    return found


def usual(seed: int) -> Iterator[Asked]:
    """The README's question about dgx-h100:4, each time with other bytes."""
    drawn = random.Random(seed)
    for size in drawn.sample(range(2**28, 2**32), 10_000):
        yield Asked("dgx-h100:4", (("data", 8), ("model", 4)), ("data",), size)


def small(seed: int) -> Iterator[Asked]:
    """Questions that take a fraction of a second, each other bytes."""
    drawn = random.Random(seed)
    for number, size in enumerate(drawn.sample(range(2**20, 2**30), 10_000)):
        system, axes, over = _SMALL[number % len(_SMALL)]
        yield Asked(system, tuple(axes.items()), over, size, k=1, max_steps=3, stripes=False)
