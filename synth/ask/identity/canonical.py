"""The canonical spelling of every question, and the key of its stored answer."""

from __future__ import annotations

import json
from hashlib import sha256

from synth.ask.identity.edition import edition
from synth.ask.questions.question import Question


def canonical_text(verb: str, question: Question) -> str:
    """Return the question with all defaults, in the order of the model, as JSON in ASCII.

    Two spellings of one question (``1GiB`` and ``1073741824``) are the same text. Axes keep the
    order they were given in, as it is that of the rows of placements.
    """
    asked = {"verb": verb, "question": question.model_dump(mode="json", by_alias=True)}
    return json.dumps(asked, separators=(",", ":"), allow_nan=False)


def key_of(verb: str, question: Question) -> str:
    """Return the key of an answer: 64 hex digits of the question and the code that answers it."""
    return key_of_text(canonical_text(verb, question))


def key_of_text(text: str) -> str:
    """Return the same key, from the ``canonical_text`` of a question."""
    return sha256(f"{edition()}\n{text}".encode()).hexdigest()
