"""A question that was sent, ready to be answered, and its answer as it is kept."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from uuid import uuid4

from hierarchies import InputError, catalogue
from synth.service.store import StoredAnswer
from synth.verbs.identity.canonical import canonical, key_of_text
from synth.verbs.identity.edition import edition
from synth.verbs.questions import Question, asked
from synth.verbs.reply import Reply
from synth.verbs.table import VERBS

OWN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_COUNTED = re.compile(r"(?P<name>[^:]+)(:[0-9]{1,18})?")
_SYSTEM_KEYS = ("system", "inside")


@dataclass(frozen=True)
class Prepared:
    """A question as it is kept: ``text`` is its canonical JSON, ``key`` that of its answer.

    A verb that measures never has the same answer twice, so each time its key is another one.
    """

    verb: str
    question: Question
    text: str
    key: str

    def answered(self, reply: Reply, seconds: float) -> StoredAnswer:
        """A complete answer, that took so long, as it is kept."""
        return StoredAnswer(
            key=self.key,
            verb=self.verb,
            edition=edition(),
            question=self.text,
            outcome=int(reply.outcome),
            body=json.dumps(reply.body, allow_nan=False).encode(),
            seconds=seconds,
            created=datetime.now(UTC),
        )


def prepare(verb: str, given: object) -> Prepared:
    """What was sent as a question. Raises InputError, naming the key that cannot be used."""
    return prepared(verb, asked(VERBS[verb].question, given))


def prepared(verb: str, question: Question) -> Prepared:
    """The same of a question that has been read."""
    text = canonical(verb, question)
    key = key_of_text(text)
    if not VERBS[verb].repeatable:
        key = sha256(f"{key}\n{uuid4().hex}".encode()).hexdigest()
    return Prepared(verb, question, text, key)


def own_names(given: object) -> tuple[str, ...]:
    """The names in a question that a team may have a system of its own for."""
    if not isinstance(given, dict):
        return ()
    known = catalogue()
    several = given.get("systems")
    said = [*map(given.get, _SYSTEM_KEYS), *(several if isinstance(several, list) else [])]
    names = dict.fromkeys(_own_name(one) for one in said)
    return tuple(name for name in names if name is not None and name not in known)


def with_own(given: object, texts: Mapping[str, str]) -> object:
    """The question with its team's own systems in the place of their names."""
    if not isinstance(given, dict) or not texts:
        return given
    changed: dict[str, Any] = dict(given)
    for key in _SYSTEM_KEYS:
        name = _own_name(given.get(key))
        if name is not None and name in texts:
            changed[key] = {"name": given[key], "text": texts[name]}
    if isinstance(given.get("systems"), list):
        changed["systems"] = [
            {"name": one, "text": texts[name]} if (name := _own_name(one) or "") in texts else one
            for one in given["systems"]
        ]
    return changed


def check_own_name(name: str) -> str:
    """A name for a system of one's own. Raises InputError for any other, and the catalogue's."""
    if not OWN_NAME.fullmatch(name):
        hint = "at most 64 letters, digits, '.', '_' and '-', the first a letter or digit"
        raise InputError(f"{name[:80]!r} is no name for a system", where="name", hint=hint)
    if name in catalogue():
        hint = "choose another: these are known to everybody"
        raise InputError(f"{name!r} is in the catalogue", where="name", hint=hint)
    return name


def _own_name(given: object) -> str | None:
    match = _COUNTED.fullmatch(given) if isinstance(given, str) else None
    return match["name"] if match and OWN_NAME.fullmatch(match["name"]) else None
