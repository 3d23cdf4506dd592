"""The texts in the form's boxes: as sent, of a question, or of an example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from synth.ask.planning import TopQuestion
from synth.ask.questions.named_texts import NamedText
from synth.ask.questions.question import MachineQuestion
from synth.service.page.collective_rows import (
    WEIGHTS,
    CollectiveRow,
    hint,
    row_of,
    rows_of,
    text_of,
)
from synth.service.page.forms import BOXES, AxisRow, Fields, axis_rows

_LEAST_ROWS = 3
_ALWAYS_SEEN = ("request", "bytes", "k", *WEIGHTS)
HINTS = {**BOXES.hints, **{name: hint(name) for name in WEIGHTS}}
SWITCHES = BOXES.switches
DEFAULT_TEXTS = BOXES.usual | dict.fromkeys(WEIGHTS, "")
"""The texts in the boxes of an empty form: the defaults of a question."""


@dataclass(frozen=True)
class FormValues:
    """All fields of the form as text; ``open``: a folded option differs from its default."""

    system: str = "dgx-h100"
    count: str = ""
    own: str = ""
    texts: Mapping[str, str] = field(default_factory=DEFAULT_TEXTS.copy)
    axes: tuple[AxisRow, ...] = ()
    sent: tuple[CollectiveRow, ...] = (CollectiveRow(),)
    ticked: frozenset[str] = field(default_factory=frozenset)

    @property
    def several(self) -> bool:
        """Whether further collectives, or weights among them, are typed."""
        weighed = any(self.texts[weight] for weight in WEIGHTS)
        return weighed or any(not row.empty for row in self.sent)

    @property
    def open(self) -> bool:
        folded = {name: text for name, text in self.texts.items() if name not in _ALWAYS_SEEN}
        return bool(self.ticked) or any(
            text not in ("", DEFAULT_TEXTS[name]) for name, text in folded.items()
        )


EXAMPLE = FormValues(count="4", axes=(AxisRow("data", "32", True), AxisRow(), AxisRow()))
"""One collective over one axis, so that nothing is asked that the user did not choose."""


def reduce_over_all(values: FormValues, devices: int) -> FormValues:
    """Return the form with one axis, of all devices, that is reduced over."""
    return replace(values, axes=_pad_rows([AxisRow("data", str(devices), True)]))


def values_of_fields(fields: Fields) -> FormValues:
    """Return the values of the form as sent."""
    system, count, own, *texts = (
        (fields.get(name) or ("",))[0] for name in ("system", "count", "own", *DEFAULT_TEXTS)
    )
    switches = frozenset(name for name in SWITCHES if fields.get(name))
    boxes = dict(zip(DEFAULT_TEXTS, texts, strict=True))
    rows = tuple(rows_of(fields)) or (CollectiveRow(),)
    return FormValues(system, count, own, boxes, _pad_rows(axis_rows(fields)), rows, switches)


def values_of_question(question: TopQuestion) -> FormValues:
    """Return the values with which the form asks a question of ``top`` again."""
    own, name, count = machine_of(question)
    answers = {box: getattr(question, entry.name) for box, entry in BOXES.by_name.items()}
    texts = {box: BOXES.written(box, answers[box]) for box in DEFAULT_TEXTS if box in answers}
    over, further = question.reduce or [], question.collectives[1:]
    for first in question.collectives[:1]:
        texts |= {name: text_of(first, name) for name in ("bytes", "request", *WEIGHTS)}
        over = first.reduce
    axes = [AxisRow(axis, str(length), axis in over) for axis, length in question.axes.items()]
    return FormValues(
        system=name,
        count=count,
        own=own,
        texts=DEFAULT_TEXTS | texts,
        axes=_pad_rows(axes),
        sent=(*map(row_of, further), CollectiveRow()),
        ticked=frozenset(box for box in SWITCHES if answers[box] is BOXES.typed(box, "yes")),
    )


def machine_of(question: MachineQuestion) -> tuple[str, str, str]:
    """Return a user's own text, the name in the catalogue, and the number of outermost units."""
    system = question.system
    own = system.text if isinstance(system, NamedText) else ""
    name, _, count = (system.name if isinstance(system, NamedText) else system).partition(":")
    return own, "" if own else name, count


def _pad_rows(rows: list[AxisRow]) -> tuple[AxisRow, ...]:
    """The rows and at least one empty one, which is needed without a script."""
    return tuple(rows) + (AxisRow(),) * max(1, _LEAST_ROWS - len(rows))
