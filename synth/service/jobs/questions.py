"""Questions as callers send them, made canonical, with a key that names the answer."""

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
from synth.ask.identity.canonical import canonical_text, key_of_text
from synth.ask.identity.edition import edition
from synth.ask.questions.question import Question, parse_question
from synth.ask.reply import Reply
from synth.ask.table import VERBS
from synth.service.store import StoredAnswer

OWN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_COUNTED_NAME = re.compile(r"(?P<name>[^:]+)(:[0-9]{1,18})?")
_SYSTEM_KEYS = ("system", "inside")


@dataclass(frozen=True)
class PreparedQuestion:
    """A question ready to be answered and kept.

    ``text`` is its canonical JSON, ``key`` the hash under which the answer is kept. A verb that
    measures never has the same answer twice, so its question gets another key each time.
    """

    verb: str
    question: Question
    text: str
    key: str

    def answered(self, reply: Reply, seconds: float) -> StoredAnswer:
        """A complete answer to this question as it is kept, with the seconds it took."""
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


def prepare(verb: str, given: object) -> PreparedQuestion:
    """Read and prepare what was sent. Raises InputError, naming the key that cannot be used."""
    return prepare_question(verb, parse_question(VERBS[verb].question, given))


def prepare_question(verb: str, question: Question) -> PreparedQuestion:
    """Prepare a question that has been read already."""
    text = canonical_text(verb, question)
    key = key_of_text(text)
    if not VERBS[verb].repeatable:
        key = sha256(f"{key}\n{uuid4().hex}".encode()).hexdigest()
    return PreparedQuestion(verb, question, text, key)


def question_in(text: str) -> dict[str, Any]:
    """The question in its canonical JSON."""
    found: dict[str, Any] = json.loads(text)["question"]
    return found


def own_names(given: object) -> tuple[str, ...]:
    """The names in a question that may be a team's systems, as the catalogue has none so named."""
    if not isinstance(given, dict):
        return ()
    known = catalogue()
    several = given.get("systems")
    named = [*map(given.get, _SYSTEM_KEYS), *(several if isinstance(several, list) else [])]
    names = dict.fromkeys(_own_name(one) for one in named)
    return tuple(name for name in names if name is not None and name not in known)


def replace_own_names(given: object, texts: Mapping[str, str]) -> object:
    """The question in which each name of a team's system is replaced by its name and text."""
    if not isinstance(given, dict) or not texts:
        return given

    def put_in(one: object) -> object:
        name = _own_name(one)
        return one if name is None or name not in texts else {"name": one, "text": texts[name]}

    changed = given | {key: put_in(given[key]) for key in _SYSTEM_KEYS if key in given}
    several = given.get("systems")
    if isinstance(several, list):
        changed |= {"systems": [put_in(one) for one in several]}
    return changed


def check_own_name(name: str) -> str:
    """The name, if a team may use it for a system. Raises InputError for any other."""
    if not OWN_NAME.fullmatch(name):
        hint = "at most 64 letters, digits, '.', '_' and '-', the first a letter or digit"
        raise InputError(f"{name[:80]!r} is no name for a system", where="name", hint=hint)
    if name in catalogue():
        hint = "choose another: these are known to everybody"
        raise InputError(f"{name!r} is in the catalogue", where="name", hint=hint)
    return name


def _own_name(given: object) -> str | None:
    match = _COUNTED_NAME.fullmatch(given) if isinstance(given, str) else None
    return match["name"] if match and OWN_NAME.fullmatch(match["name"]) else None
