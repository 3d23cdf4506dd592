"""The texts in the boxes of these forms, from what was sent or from a question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hierarchies import InputError
from synth.ask.questions.named_texts import NamedText
from synth.service.page.asking.rows import VerbForm
from synth.service.page.form_values import machine_of
from synth.service.page.forms import (
    OWN_FILE,
    Fields,
    FormFindings,
    first_value,
    read_boxes,
    system_in,
)

_OWN_JOB = "own-job.toml"
Texts = Mapping[str, str]


@dataclass(frozen=True)
class LogText:
    """A log: its file's name and text."""

    name: str = ""
    text: str = ""


@dataclass(frozen=True)
class VerbFormValues:
    """All fields of a form as text; ``open``: a folded option differs from its default."""

    system: str = "dgx-h100"
    count: str = ""
    own: str = ""
    systems: str = ""
    job: str = ""
    own_job: str = ""
    logs: tuple[LogText, ...] = (LogText(),)
    texts: Texts = field(default_factory=dict)
    ticked: frozenset[str] = frozenset()
    open: bool = False


_EXAMPLES: Mapping[str, tuple[Mapping[str, Any], Texts]] = {
    "sweep": (
        {"systems": "dgx-h100:4 dgx-a100:4"},
        {"axes": "data=32", "reduce": "data", "k": "1"},
    ),
    "cost": ({"count": "4"}, {"axes": "data=32", "reduce": "data", "slow": "node3/nic2=0.5"}),
    "plan": ({"count": "4", "job": "gpt-18b-3d"}, {}),
    "doctor": ({"system": "dgx-a100", "count": "2"}, {}),
    "calibrate": ({"system": "dgx-a100", "count": "2"}, {}),
    "tests": ({"count": "2"}, {}),
}


def example(form: VerbForm) -> VerbFormValues:
    """Return the values of a form that could be sent as they are, except for logs."""
    values, texts = _EXAMPLES[form.name]
    return VerbFormValues(**values, texts={**form.boxes.usual, **texts})


def values_of_fields(form: VerbForm, fields: Fields) -> VerbFormValues:
    """Return the values of a form as sent."""
    names = ("system", "count", "own", "systems", "job", "own_job")
    texts = {name: first_value(fields, name) for name in form.boxes.usual}
    ticked = frozenset(name for name in form.boxes.switches if first_value(fields, name))
    values = {name: first_value(fields, name) for name in names}
    logs = (*_logs(fields), LogText())
    return VerbFormValues(
        **values, logs=logs, texts=texts, ticked=ticked, open=_differs(form, texts, ticked)
    )


def values_of_question(form: VerbForm, question: Any) -> VerbFormValues:
    """Return the values with which the form asks a question again."""
    values: dict[str, Any] = {}
    if "system" in form.needs:
        values["own"], values["system"], values["count"] = machine_of(question)
    if "systems" in form.needs:
        values["systems"] = " ".join(str(getattr(s, "name", s)) for s in question.systems)
    if "job" in form.needs:
        own = question.job.text if isinstance(question.job, NamedText) else ""
        values |= {"own_job": own, "job": "" if own else question.job or ""}
    if "logs" in form.needs:
        values["logs"] = (*(LogText(file.name, file.text) for file in question.files), LogText())
    boxes = form.boxes
    answers = {name: getattr(question, entry.name) for name, entry in boxes.by_name.items()}
    texts = {
        name: "" if answers[name] is None else boxes.written(name, answers[name])
        for name in boxes.usual
    }
    ticked = frozenset(name for name in boxes.switches if answers[name] is boxes.typed(name, "yes"))
    return VerbFormValues(**values, texts=texts, ticked=ticked, open=_differs(form, texts, ticked))


def question(form: VerbForm, fields: Fields) -> tuple[dict[str, Any], FormFindings]:
    """Return the question as JSON, and the problems of converting the form to it."""
    logs = list(_logs(fields))
    texts = (OWN_FILE, _OWN_JOB, *(log.name for log in logs))
    checked = FormFindings(where=form.where, own=texts)
    parsed = {**form.fixed, **read_boxes(fields, form.boxes, checked)}
    if "system" in form.needs:
        parsed["system"] = system_in(fields)
    if "systems" in form.needs:
        parsed["systems"] = first_value(fields, "systems").replace(",", " ").split()
    if "job" in form.needs:
        own = first_value(fields, "own_job")
        parsed["job"] = {"name": _OWN_JOB, "text": own} if own else first_value(fields, "job")
    if "logs" in form.needs:
        parsed["files"] = [{"name": log.name, "text": log.text} for log in logs]
        if not logs:
            hint = "drop files that nccl-tests wrote, or paste what it printed"
            checked.note("logs", InputError("no log is given", hint=hint))
    return parsed, checked


def _logs(fields: Fields) -> Iterable[LogText]:
    """Logs with a text; one without a name is named by its number."""
    names, texts = fields.get("log_name", ()), fields.get("log_text", ())
    pairs = zip(names, texts, strict=False)
    for number, (name, text) in enumerate(pairs, 1):
        if text.strip():
            yield LogText(name.strip() or f"log{number}.txt", text)


def _differs(form: VerbForm, texts: Texts, ticked: Iterable[str]) -> bool:
    usual = form.boxes.usual
    return any(name in form.folded for name in ticked) or any(
        texts[name] not in ("", usual[name]) for name in usual if name in form.folded
    )
