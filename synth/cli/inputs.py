"""Reads the files that a user names: questions hold their texts, as no verb reads a file."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hierarchies import InputError, file_text
from hierarchies.importers import texts
from synth.calibration.logs.files import log_text
from synth.train.models import OWN, own_step
from synth.train.zoo.sizes import ZOO
from synth.verbs.questions.fields import File
from synth.workload.files import job_file_text

_FILE_NAME = re.compile(r"[^\s;#]*[./\\][^\s;#]*")
Named = dict[str, str]


def system(spec: str) -> str | Named:
    """A known machine's name unchanged; for a file its text, with the file's name as typed."""
    text = file_text(spec)
    return spec if text is None else _named(spec, text)


def systems(specs: Sequence[str]) -> list[str | Named]:
    """Several systems, each as ``system`` reads it."""
    return [system(spec) for spec in specs]


def job(spec: str) -> str | Named:
    """A shipped job's name unchanged; for a file its text, with the file's name as typed."""
    text = job_file_text(spec)
    return spec if text is None else _named(spec, text)


def files(paths: Sequence[str]) -> list[Named]:
    """Other people's descriptions, by the names of their files; one named twice is one."""
    return [_named(path, text) for path, text in texts(paths).items()]


def logs(paths: Sequence[str]) -> list[Named]:
    """Logs of measurements, by the names of their files."""
    return [_named(path, log_text(path)) for path in paths]


def unread(paths: Sequence[str]) -> list[Named]:
    """Files that another flag makes useless: named, but not read (``calibrate --plan``)."""
    return [_named(path, "") for path in paths]


def answer(text: str) -> Any:
    """What ``top --json`` printed: in a file, or on standard input for ``-``."""
    where = "standard input" if text == "-" else text
    hint = "give what 'collsynth top --json' or 'collsynth plan --json' printed"
    try:
        raw = sys.stdin.buffer.read() if text == "-" else Path(text).read_bytes()
        found = json.loads(raw)
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=where) from None
    except (ValueError, RecursionError):
        raise InputError("this holds no JSON", where=where, hint=hint) from None
    if not isinstance(found, dict):
        raise InputError("this holds no answer", where=where, hint=hint)
    return found


def program(text: str, what: str = "a program") -> str:
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


def step(spec: str) -> str | Named:
    """A name of the zoo unchanged; else a text: of a file, of what FILE.py:FUNCTION traces to.

    The latter runs the file, which nothing but this command line does.
    """
    if spec in ZOO:
        return spec
    if OWN.fullmatch(spec):
        return _named(spec, str(own_step(spec)))
    text = program(spec, "a model of the zoo")
    return spec if text == spec else _named(spec, text)


def profile(spec: str) -> Named:
    """What 'collsynth profile' wrote to a file, with the file's name as typed."""
    text = program(spec, "a profile")
    if text == spec:
        hint = "'collsynth profile MODEL --plan PLAN -o FILE' makes one"
        raise InputError(f"there is no file {spec!r}", where="--profile", hint=hint)
    return _named(spec, text)


def device(spec: str) -> str | Named:
    """A known accelerator's name unchanged; for a file its text, with the file's name as typed."""
    text = program(spec, "an accelerator")
    return spec if text == spec else _named(spec, text)


def names_only(question: Any) -> Any:
    """A question as it is logged: each named text is replaced by its name."""
    if isinstance(question, dict):
        if question.keys() == {"name", "text"}:
            return question["name"]
        return {key: names_only(value) for key, value in question.items()}
    return [names_only(part) for part in question] if isinstance(question, list) else question


def _named(name: str, text: str) -> Named:
    return {"name": name, "text": text}


READERS: Mapping[File, Callable[[Any], Any]] = {
    File.SYSTEM: system,
    File.SYSTEMS: systems,
    File.JOB: job,
    File.TOPOLOGIES: files,
    File.LOGS: logs,
    File.ANSWER: answer,
    File.PROGRAM: program,
    File.ORDER: partial(program, what="a pipeline order"),
    File.STEP: step,
    File.PLAN: partial(program, what="a plan"),
    File.PROFILE: profile,
    File.DEVICE: device,
}
"""What reads a word that may name a file, by what the file holds."""
