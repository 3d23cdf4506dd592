"""Every verb of the command line as a Python function: keywords in, the typed answer out.

>>> from synth.verbs import FUNCTIONS
>>> FUNCTIONS["place"]("dgx-h100:1", axes={"data": 8}).count
1
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from typing import Any

from hierarchies import InputError
from hierarchies.files.named_texts import to_sendable
from synth.ask.answers.parts import Json
from synth.ask.identity.canonical import canonical_text
from synth.ask.questions.fields import flags_of
from synth.ask.questions.question import Question, parse_question
from synth.ask.reply import Outcome
from synth.ask.table import VERBS, judge
from synth.cache.kept import LatestValues
from synth.collective.ranking.request import Watcher
from synth.search.heap import collect_garbage_seldom

ANSWERS = LatestValues[str](16)
"""The last plans of this process, as JSON: a caller may change what it was given."""


def _verb_function(verb: str, name: str) -> Callable[..., Any]:
    """Returns the function that asks a verb, under its name in ``synth``.

    Its parameters are the keys of the question as in ``docs/json.md``; those without a flag's
    dashes on the command line may be given by place. A ``Path`` stands for the text of its file.
    The function returns the pydantic model of the answer, complete or not (``answer.complete``),
    and raises InputError for a question that cannot be used. ``watcher`` sees progress and can
    stop the work.
    """
    entry = VERBS[verb]
    signature = _signature(entry.question)

    def ask(*values: Any, watcher: Watcher | None = None, **fields: Any) -> Any:
        try:
            arguments = signature.bind(*values, **fields).arguments
        except TypeError as error:
            keys = ", ".join(signature.parameters)
            raise InputError(f"synth.{name}: {error}", hint=f"its keys are {keys}") from None
        # ``from`` is a word of Python, so the key of that name is known by its field's name here.
        keys_of = {name: entry.question.model_fields[name].alias or name for name in arguments}
        given = {keys_of[name]: value for name, value in arguments.items()}
        question = parse_question(entry.question, to_sendable(given))
        with collect_garbage_seldom():
            body = _answer(verb, question, watcher)
        return judge(verb).validate_python(body)

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = (entry.answer.__doc__ or "").strip()
    ask.__signature__ = signature  # type: ignore[attr-defined]
    return ask


def _answer(verb: str, question: Question, watcher: Watcher | None) -> Json:
    """Answers a question; a plan that nobody watches, and that was answered before, from memory."""
    if verb != "plan" or watcher is not None:
        return VERBS[verb].answer(question, watcher or Watcher()).body
    key = canonical_text(verb, question)
    if (known := ANSWERS.find(key)) is None:
        reply = VERBS[verb].answer(question, Watcher())
        known = json.dumps(reply.body, allow_nan=False)
        if reply.outcome is not Outcome.PARTIAL:
            ANSWERS.keep(key, known)
    body: Json = json.loads(known)
    return body


def _signature(question: type[Question]) -> Signature:
    """The keys of a question: arguments of the command line by place, all others as keywords."""
    placed = [flag.name for flag in flags_of(question) if flag.is_argument]
    others = [name for name in question.model_fields if name not in placed]
    return Signature(
        [
            *(_parameter(question, name, Parameter.POSITIONAL_OR_KEYWORD) for name in placed),
            *(_parameter(question, name, Parameter.KEYWORD_ONLY) for name in others),
        ]
    )


def _parameter(question: type[Question], name: str, kind: Any) -> Parameter:
    field = question.model_fields[name]
    default = (
        Parameter.empty if field.is_required() else field.get_default(call_default_factory=True)
    )
    return Parameter(name, kind, default=default, annotation=field.annotation)


_NAMES = {verb: verb for verb in VERBS if verb != "top"} | {"import": "import_topology"}
"""Names of the functions by verb. ``synth.top`` returns domain types instead."""

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    name: _verb_function(verb, name) for verb, name in _NAMES.items()
}
"""The functions by their names in ``synth``."""
