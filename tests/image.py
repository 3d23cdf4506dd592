"""What deploy/ says of the image and of compose's services, to be run without an engine."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from places import ROOT

DEPLOY = ROOT / "deploy"
COMPOSE: Any = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


class Line(NamedTuple):
    """An instruction of the Dockerfile."""

    word: str
    rest: str


def dockerfile() -> list[list[Line]]:
    """The stages, each from its FROM on."""
    stages: list[list[Line]] = []
    for text in (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines():
        if not text or text.startswith("#"):
            continue
        word, _, rest = text.partition(" ")
        if word == "FROM":
            stages.append([])
        stages[-1].append(Line(word, rest))
    return stages


BUILD, FINAL = dockerfile()
ENVIRONMENT = dict(line.rest.split("=", 1) for line in FINAL if line.word == "ENV")


def of(stage: list[Line], word: str) -> list[str]:
    """What instructions of one word say."""
    return [line.rest for line in stage if line.word == word]


def command() -> list[str]:
    """What the image runs."""
    [found] = of(FINAL, "CMD")
    words: list[str] = json.loads(found)
    return words


def health() -> list[str]:
    """What the image is checked by."""
    [found] = re.findall(r"CMD (\[.*\])", of(FINAL, "HEALTHCHECK")[0])
    words: list[str] = json.loads(found)
    return words


def environment(home: Path) -> dict[str, str]:
    """The image's, with the programs that run the tests, and a folder in place of its volume."""
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    moved = {
        name: value.replace("/var/lib/collsynth", str(home)) for name, value in ENVIRONMENT.items()
    }
    return {**moved, "PATH": programs, "HOME": str(home), "PYTHONPATH": str(ROOT)}
