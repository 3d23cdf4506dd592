"""Reads the files that a user names: questions hold their texts, as no verb reads a file."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from hierarchies import InputError, error_context, file_text
from synth.ask.questions import notations
from synth.ask.questions.fields import File
from synth.collective.workload.files import job_file_text
from synth.measure.logs.text import read_log_text

_FILE_NAME = re.compile(r"[^\s;#]*[./\\][^\s;#]*")
NamedTextJson = dict[str, str]


def read_system(spec: str) -> str | NamedTextJson:
    """A known machine's name unchanged; for a file its text, with the file's name as typed."""
    text = file_text(spec)
    return spec if text is None else named_text(spec, text)


def read_systems(specs: Sequence[str]) -> list[str | NamedTextJson]:
    """Several systems, each as ``read_system`` reads it."""
    return [read_system(spec) for spec in specs]


def read_swept(words: Sequence[str]) -> dict[str, list[Any]]:
    """Swept values, with the texts of the files that are systems."""
    with error_context("--sweep"):
        swept = notations.SWEPT_VALUES.read(words)
        readers = {"system": read_system, "model": READERS[File.MODEL]}
        return {
            key: [*map(readers[key], values)] if key in readers else values
            for key, values in swept.items()
        }


def read_job(spec: str) -> str | NamedTextJson:
    """A shipped job's name unchanged; for a file its text, with the file's name as typed."""
    text = job_file_text(spec)
    return spec if text is None else named_text(spec, text)


def read_logs(paths: Sequence[str]) -> list[NamedTextJson]:
    """Logs of measurements, by the names of their files."""
    return [named_text(path, read_log_text(path)) for path in paths]


def skip_files(paths: Sequence[str]) -> list[NamedTextJson]:
    """Files that another flag makes useless: named, but not read (``calibrate --plan``)."""
    return [named_text(path, "") for path in paths]


def read_answer(text: str) -> Any:
    """What ``top --json`` printed: in a file, or on standard input for ``-``."""
    where = "standard input" if text == "-" else text
    hint = "give the output of 'collsynth top --json' or 'collsynth plan --json'"
    try:
        raw = sys.stdin.buffer.read() if text == "-" else Path(text).read_bytes()
        found = json.loads(raw)
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=where) from None
    except (ValueError, RecursionError):
        raise InputError("this is not JSON", where=where, hint=hint) from None
    if not isinstance(found, dict):
        raise InputError("this is not an answer", where=where, hint=hint)
    return found


def read_program(text: str, what: str = "a program") -> str:
    """Standard input for ``-``, a file's text if there is such a file, else the text itself."""
    try:
        if text == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig")
        path = Path(text)
        if path.is_file():
            return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("the file is not text in UTF-8", where=text) from None
    except (OSError, ValueError):
        return text
    if _FILE_NAME.fullmatch(text):
        raise InputError(f"there is no file {text!r}", hint=f"give {what}, a file, or - for stdin")
    return text


def profile(spec: str) -> NamedTextJson:
    """What 'collsynth profile' wrote to a file, with the file's name as typed."""
    text = read_program(spec, "a profile")
    if text == spec:
        hint = "'collsynth profile MODEL --plan PLAN -o FILE' creates one"
        raise InputError(f"there is no file {spec!r}", where="--profile", hint=hint)
    return named_text(spec, text)


def device(spec: str) -> str | NamedTextJson:
    """A known accelerator's name unchanged; for a file its text, with the file's name as typed."""
    text = read_program(spec, "an accelerator")
    return spec if text == spec else named_text(spec, text)


def strip_texts(question: Any) -> Any:
    """A question as it is logged: each named text is replaced by its name."""
    if isinstance(question, dict):
        if question.keys() == {"name", "text"}:
            return question["name"]
        return {key: strip_texts(value) for key, value in question.items()}
    return [strip_texts(part) for part in question] if isinstance(question, list) else question


def named_text(name: str, text: str) -> NamedTextJson:
    """A text with the name of where it stood, as questions hold it."""
    return {"name": name, "text": text}


def _read_later(reader: str) -> Callable[[Any], Any]:
    """A reader by its dotted name: its module is imported when a question names such a file."""
    return lambda word: resolve_name(reader)(word)


READERS: Mapping[File, Callable[[Any], Any]] = {
    File.SYSTEM: read_system,
    File.SYSTEMS: read_systems,
    File.SWEPT: read_swept,
    File.JOB: read_job,
    File.TOPOLOGIES: _read_later("synth.cli.foreign_inputs.read_topologies"),
    File.LOGS: read_logs,
    File.ANSWER: read_answer,
    File.PROGRAM: read_program,
    File.ORDER: partial(read_program, what="a pipeline order"),
    File.STEP: _read_later("synth.cli.foreign_inputs.read_step"),
    File.MODEL: _read_later("synth.cli.foreign_inputs.read_model"),
    File.PLAN: partial(read_program, what="a plan"),
    File.PROFILE: profile,
    File.DEVICE: device,
}
"""What reads a word that may name a file, by what the file holds."""
