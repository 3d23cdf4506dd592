"""The texts in a form's boxes, from what was sent or from a question; and the question they ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hierarchies import InputError
from synth.ask.questions.named_texts import NamedText
from synth.service.page.forms.collectives import (
    WEIGHTS,
    CollectiveRow,
    collectives_of,
    row_of,
    rows_of,
    text_of,
)
from synth.service.page.forms.fields import (
    OWN_JOB,
    OWN_MODEL,
    AxisRow,
    Fields,
    FormFindings,
    LogText,
    axis_rows,
    first_value,
    logs_in,
    system_in,
)
from synth.service.page.forms.form import QuestionForm, parse_whole
from synth.service.page.views.carried import boxes as boxes_of

_LEAST_ROWS = 3
Texts = Mapping[str, str]


@dataclass(frozen=True)
class FormValues:
    """All fields of a form as text; ``open``: a folded option differs from its default."""

    system: str = "dgx-h100"
    count: str = ""
    own: str = ""
    systems: str = ""
    job: str = ""
    own_job: str = ""
    own_model: str = ""
    axes: tuple[AxisRow, ...] = ()
    sent: tuple[CollectiveRow, ...] = (CollectiveRow(),)
    logs: tuple[LogText, ...] = (LogText(),)
    texts: Texts = field(default_factory=dict)
    ticked: frozenset[str] = frozenset()
    open: bool = False

    @property
    def several(self) -> bool:
        """Whether further collectives, or weights among them, are typed."""
        weighed = any(self.texts[weight] for weight in WEIGHTS)
        return weighed or any(not row.empty for row in self.sent)


def example(form: QuestionForm) -> FormValues:
    """Return the values of a form's example, which can be sent unchanged, except for logs."""
    return FormValues(**form.example, texts={**form.usual, **form.typed})


def reduce_over_all(values: FormValues, devices: int) -> FormValues:
    """Return the values with a single axis over all devices, which is reduced."""
    return replace(values, axes=_pad_rows([AxisRow("data", str(devices), True)]))


def values_of_fields(form: QuestionForm, fields: Fields) -> FormValues:
    """Return the values of a form as sent."""
    names = ("system", "count", "own", "systems", "job", "own_job", "own_model")
    values: dict[str, Any] = {name: first_value(fields, name) for name in names}
    values["axes"] = _pad_rows(axis_rows(fields))
    values["sent"] = tuple(rows_of(fields)) or (CollectiveRow(),)
    values["logs"] = (*logs_in(fields), LogText())
    texts = {name: first_value(fields, name) for name in form.usual}
    ticked = frozenset(name for name in form.switches if first_value(fields, name))
    return FormValues(**values, texts=texts, ticked=ticked, open=_differs(form, texts, ticked))


def values_of_question(form: QuestionForm, question: Any) -> FormValues:
    """Return the values with which the form repeats a question."""
    values: dict[str, Any] = {"axes": _pad_rows([])}
    answers = {name: getattr(question, entry.name) for name, entry in form.boxes.items()}
    texts = {
        name: form.write(name, answers[name]) if name in answers else "" for name in form.usual
    }
    if "system" in form.needs:
        system = question.system
        values |= boxes_of(system.model_dump() if isinstance(system, NamedText) else system)
    if "systems" in form.needs:
        values["systems"] = " ".join(str(getattr(s, "name", s)) for s in question.systems)
    if "job" in form.needs:
        own = question.job.text if isinstance(question.job, NamedText) else ""
        values |= {"own_job": own, "job": "" if own else question.job or ""}
    if "model" in form.needs and isinstance(question.model, NamedText):
        values["own_model"], texts["model"] = question.model.text, form.typed["model"]
    if "logs" in form.needs:
        values["logs"] = (*(LogText(file.name, file.text) for file in question.files), LogText())
    if "axes" in form.needs:
        over = question.reduce or []
        for first in question.collectives[:1]:
            texts |= {name: text_of(first, name) for name in ("bytes", "request", *WEIGHTS)}
            over = first.reduce
        axes = [AxisRow(axis, str(size), axis in over) for axis, size in question.axes.items()]
        further = map(row_of, question.collectives[1:])
        values |= {"axes": _pad_rows(axes), "sent": (*further, CollectiveRow())}
    ticked = frozenset(name for name in form.switches if answers[name] is form.read(name, "yes"))
    differs = _differs(form, texts, ticked)
    return FormValues(**values, texts=texts, ticked=ticked, open=differs)


def question(form: QuestionForm, fields: Fields) -> tuple[dict[str, Any], FormFindings]:
    """Return the question as JSON, and the problems of converting the form to it.

    With further collectives the form's own is the first of their list.
    """
    logs = list(logs_in(fields))
    checked = FormFindings(where=form.where)
    checked.own += tuple(log.name for log in logs)
    parsed = {**form.fixed}
    if "axes" in form.needs:
        parsed["axes"], parsed["reduce"] = _axes(fields, checked)
    for name, box in form.boxes.items():
        if text := first_value(fields, name):
            with checked.noting(name):
                parsed[box.name] = form.read(name, text)
    if "system" in form.needs:
        parsed["system"] = system_in(fields)
    if "systems" in form.needs:
        parsed["systems"] = first_value(fields, "systems").replace(",", " ").split()
    if "job" in form.needs:
        own = first_value(fields, "own_job")
        parsed["job"] = {"name": OWN_JOB, "text": own} if own else first_value(fields, "job")
    if "model" in form.needs:
        _add_model(parsed, fields, checked)
    if "logs" in form.needs:
        parsed["files"] = [{"name": log.name, "text": log.text} for log in logs]
        if not logs:
            hint = "drop output files of nccl-tests, or paste their text"
            checked.note("logs", InputError("no log is given", hint=hint))
    return _with_collectives(parsed, fields, checked) if "axes" in form.needs else parsed, checked


def _add_model(parsed: dict[str, Any], fields: Fields, checked: FormFindings) -> None:
    """Put a pasted configuration in place of the chosen model, and note where there is neither."""
    if own := first_value(fields, "own_model"):
        parsed["model"] = {"name": OWN_MODEL, "text": own}
    elif "model" not in parsed:
        checked.note("model", InputError("no model is given", hint="for example llama3-8b"))


def _with_collectives(
    parsed: dict[str, Any], fields: Fields, checked: FormFindings
) -> dict[str, Any]:
    """Return the question with further collectives, whose list begins with the form's own."""
    first: dict[str, Any] = {
        key: parsed[key] for key in ("reduce", "bytes", "request") if key in parsed
    }
    with checked.noting("sent"):
        if collectives := collectives_of(fields, first):
            alone = {key: value for key, value in parsed.items() if key not in first}
            return {**alone, "collectives": collectives}
    return parsed


def _axes(fields: Fields, checked: FormFindings) -> tuple[dict[str, int], list[str]]:
    """Return the axes by name, and the ticked ones."""
    axes: dict[str, int] = {}
    over: list[str] = []
    for row in axis_rows(fields):
        name, size = row.name.strip(), row.size.strip()
        if not name and not size:
            continue
        if name in axes:
            checked.note("axes", InputError(f"axis {name!r} is given twice"))
        with checked.noting("axes"):
            axes[name] = parse_whole(size, f"the size of {name or 'an axis'}")
        if row.over:
            over.append(name)
    if not axes:
        checked.note("axes", InputError("no axis is given", hint="name one, and give its size"))
    if not over:
        nothing = InputError("no axis to reduce over is chosen", hint="tick an axis")
        checked.note("reduce", nothing)
    return axes, over


def _pad_rows(rows: list[AxisRow]) -> tuple[AxisRow, ...]:
    """Return the rows and at least one empty row, because without a script none can be added."""
    return tuple(rows) + (AxisRow(),) * max(1, _LEAST_ROWS - len(rows))


def _differs(form: QuestionForm, texts: Texts, ticked: Iterable[str]) -> bool:
    usual = form.usual
    return any(name in form.folded for name in ticked) or any(
        texts[name] not in ("", usual[name]) for name in usual if name in form.folded
    )
