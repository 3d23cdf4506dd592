"""Questions in canonical form, each with the key of its answer."""

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
from synth.ask.questions.named_texts import MOST_FILES
from synth.ask.questions.question import Question, parse_question
from synth.ask.reply import Reply
from synth.ask.table import VERBS
from synth.service.store import StoredAnswer

OWN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_COUNTED_NAME = re.compile(r"(?P<name>[^:]+)(:[0-9]{1,18})?")
_SYSTEM_KEYS = ("system", "inside")
KEPT = "kept"
"""The name of all baselines that a team keeps of a question's machine."""


@dataclass(frozen=True)
class PreparedQuestion:
    """A question ready to be answered and kept.

    ``text`` is its canonical JSON, ``key`` the hash under which the answer is stored. A verb that
    measures gives a new answer each time, so each of its questions gets a new key.
    """

    verb: str
    question: Question
    text: str
    key: str

    def answered(self, reply: Reply, seconds: float) -> StoredAnswer:
        """Return a complete answer to this question as a record of the store."""
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
    """Parse and prepare a question. Raises InputError, naming the key that cannot be used."""
    return prepare_question(verb, parse_question(VERBS[verb].question, given))


def prepare_question(verb: str, question: Question) -> PreparedQuestion:
    """Prepare a parsed question."""
    text = canonical_text(verb, question)
    key = key_of_text(text)
    if not VERBS[verb].repeatable:
        key = sha256(f"{key}\n{uuid4().hex}".encode()).hexdigest()
    return PreparedQuestion(verb, question, text, key)


def question_in(text: str) -> dict[str, Any]:
    """Return the question within its canonical JSON."""
    question: dict[str, Any] = json.loads(text)["question"]
    return question


def own_names(given: object) -> tuple[str, ...]:
    """Return the names of systems in a question that are not in the catalogue."""
    if not isinstance(given, dict):
        return ()
    catalogued = catalogue()
    systems = given.get("systems")
    named = [*map(given.get, _SYSTEM_KEYS), *(systems if isinstance(systems, list) else [])]
    names = dict.fromkeys(_own_name(name) for name in named)
    return tuple(name for name in names if name is not None and name not in catalogued)


def replace_own_names(given: object, texts: Mapping[str, str]) -> object:
    """Replace each name of a team's system in a question by its name and text."""
    if not isinstance(given, dict) or not texts:
        return given

    def put_in(system: object) -> object:
        name = _own_name(system)
        return (
            system if name is None or name not in texts else {"name": system, "text": texts[name]}
        )

    changed = given | {key: put_in(given[key]) for key in _SYSTEM_KEYS if key in given}
    systems = given.get("systems")
    if isinstance(systems, list):
        changed |= {"systems": [put_in(system) for system in systems]}
    return changed


def texts_of_systems(given: object) -> list[str]:
    """Return the texts of several systems in a question: one per mention, also of the same."""
    systems = given.get("systems") if isinstance(given, dict) else None
    listed = systems if isinstance(systems, list) else []
    texts = [each.get("text") for each in listed if isinstance(each, dict)]
    return [text for text in texts if isinstance(text, str)]


def named_baselines(verb: str, given: object) -> tuple[str, frozenset[str]] | None:
    """Return the machine and the names of the baselines that a question names; None if of none.

    Also None for more files than a question may have: it is refused with its length.
    """
    if "baseline" not in VERBS[verb].question.model_fields:
        return None
    match given:
        case {"baseline": [*files], "system": system} if len(files) <= MOST_FILES:
            machine = _own_name(system.get("name") if isinstance(system, dict) else system)
            names = frozenset(file for file in files if isinstance(file, str))
            return (machine, names) if machine and names else None
    return None


def replace_baselines(given: object, texts: Mapping[str, str]) -> object:
    """Replace each name of a team's baseline in a question by its name and text, once each.

    Names that are not kept stay, and are refused with the question.
    """
    if not isinstance(given, dict) or not texts:
        return given
    left = dict(texts)

    def put_in(name: object) -> list[object]:
        if name == KEPT:
            chosen = list(left)
        elif isinstance(name, str) and name in texts:
            chosen = [name] if name in left else []
        else:
            return [name]
        return [{"name": test, "text": left.pop(test)} for test in chosen]

    return given | {"baseline": [file for name in given["baseline"] for file in put_in(name)]}


def check_own_name(name: str) -> str:
    """Return the name if a team may use it for a system. Raises InputError otherwise."""
    if not OWN_NAME.fullmatch(name):
        hint = "at most 64 letters, digits, '.', '_' and '-', the first a letter or digit"
        raise InputError(f"{name[:80]!r} is not a valid name of a system", where="name", hint=hint)
    if name in catalogue():
        hint = "choose another name: those of the catalogue are reserved"
        raise InputError(f"{name!r} is in the catalogue", where="name", hint=hint)
    return name


def _own_name(given: object) -> str | None:
    match = _COUNTED_NAME.fullmatch(given) if isinstance(given, str) else None
    return match["name"] if match and OWN_NAME.fullmatch(match["name"]) else None
