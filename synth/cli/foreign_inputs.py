"""Reads files of other tools and a user's models, with modules that few questions need."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from hierarchies.importers import read_texts
from synth.cli.inputs import NamedTextJson, named_text, read_program
from synth.step.models import OWN_PATTERN, own_step
from synth.step.zoo.sizes import ZOO


def read_topologies(paths: Sequence[str]) -> list[NamedTextJson]:
    """Topology files of other tools, by name; a file that is named twice is read once."""
    return [named_text(path, text) for path, text in read_texts(paths).items()]


def read_step(spec: str) -> str | NamedTextJson:
    """A model, as ``read_model`` reads it; else the text of what FILE.py:FUNCTION traces to.

    The latter runs the file, which nothing but this command line does.
    """
    if OWN_PATTERN.fullmatch(spec):
        return named_text(spec, str(own_step(spec)))
    return read_model(spec)


def read_model(spec: str) -> str | NamedTextJson:
    """A name of the zoo unchanged; else the text of a file, or of config.json in a folder."""
    if spec in ZOO:
        return spec
    with suppress(OSError, ValueError):
        if Path(spec).is_dir():
            spec = str(Path(spec) / "config.json")
    text = read_program(spec, "a model of the zoo")
    return spec if text == spec else named_text(spec, text)
