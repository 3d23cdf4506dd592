"""The commands are made from the questions, and show themselves before anything is loaded."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from inspect import getdoc
from typing import Any

from places import ROOT
from synth.verbs.fields import Asked, flags_of
from synth.verbs.table import VERBS, Verb

MADE = ROOT / "synth" / "cli" / "commands" / "verbs.json"


def row(flag: Asked) -> dict[str, Any]:
    """A flag without what is usual of flags."""
    usual = {one.name: one.default for one in fields(Asked)}
    return {key: value for key, value in asdict(flag).items() if value != usual[key]}


def made(verb: Verb) -> str:
    said = (getdoc(verb.question) or "").partition("\n\n")[0].replace("\n", " ")
    head = f'"help": {json.dumps(said)}, "partial": {json.dumps(verb.partial)}, "flags": ['
    flags = ",\n".join(f"  {json.dumps(row(flag))}" for flag in flags_of(verb.question))
    return f"{{{head}\n{flags}\n]}}"


def test_the_commands_are_those_of_the_questions(update_golden: bool) -> None:
    """``--update-golden`` makes them anew."""
    rows = ",\n".join(f'"{name}": {made(verb)}' for name, verb in VERBS.items())
    text = f"{{\n{rows}\n}}\n"
    if update_golden:
        MADE.write_text(text, encoding="utf-8")
    assert MADE.read_text(encoding="utf-8") == text
