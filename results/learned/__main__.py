"""How far off estimators of fused kernels are on models and families that they never saw.

``python -m results.learned`` fits and judges the ladder again on the samples that are kept here, a
file for each compiler, and writes learned.json and a section of README.md. ``collsynth estimate
train -o ANY --keep FILE`` made the samples, which say on which machine.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from results import pages, record
from synth.train.learned.estimator import card, span, trained
from synth.train.learned.judging import noise
from synth.train.learned.samples import RUNTIMES, machine_words, read_samples
from synth.train.zoo.sizes import ZOO

HERE = Path(__file__).parent
DATA = HERE / "learned.json"
COMMAND = "python -m results.learned"
AIMS = {"median": 0.15, "p90": 0.40}
HELD = (0.85, 0.95)
TWICE = 2.0


def judged(path: Path) -> dict[str, Any]:
    """The ladder on the samples of a file."""
    found = read_samples(path.read_text(encoding="utf-8"), where=path.name)
    made = trained(found)
    told: dict[str, Any] = card(made)
    floor = noise([one for one in found.samples if one.group in ZOO])
    return told | {
        "words": machine_words(found.machine),
        "refused": found.refused,
        "noise": floor and asdict(floor),
        "span": span(made),
        "held_of_all": _held_of_all(made.judged.held, made.judged.groups),
    }


def _held_of_all(held: dict[str, float], groups: dict[str, Any]) -> float:
    """The share of all kernels of models."""
    kernels = {model: groups[model].kernels for model in held}
    inside = sum(share * kernels[model] for model, share in held.items())
    return inside / sum(kernels.values()) if kernels else 0.0


def page(data: dict[str, Any]) -> str:
    """README.md with its section about estimators as the data has it."""
    return pages.page("learned", data=data, aims=AIMS, ends=HELD, twice=TWICE)


def made() -> dict[str, Any]:
    """Of each compiler whose samples are here."""
    files = {compiler: HERE / f"{compiler}.json" for compiler in RUNTIMES}
    there = {compiler: judged(path) for compiler, path in files.items() if path.exists()}
    return record.origin(COMMAND) | {"compilers": there}


if __name__ == "__main__":
    sys.exit(pages.command(COMMAND, DATA, made, page))
