"""What stands in the form: as it was sent, as a question says, or as an example."""

from __future__ import annotations

from dataclasses import dataclass, field

from synth.service.page.forms import Fields
from synth.verbs.named_texts import NamedText
from synth.verbs.planning import TopQuestion

SWITCHES = {
    "per_placement": "the best programs of every placement",
    "across": "steps across any digits",
    "no_collapse": "every axis a digit of its own (deeper trees)",
    "no_stripes": "no programs side by side",
    "explain": "reasons for every answer",
}
_LEAST_ROWS = 3
_PLAIN = ("system", "count", "own", "request", "bytes", "k", "max_steps", "algorithm")
_MORE = (*_PLAIN, "segments", "without", "slow")


@dataclass(frozen=True)
class AxisRow:
    """One row of the table of axes."""

    name: str = ""
    size: str = ""
    over: bool = False


@dataclass(frozen=True)
class Filling:
    """All fields of the form as text; ``open``: some of the folded options are set."""

    system: str = "dgx-h100"
    count: str = ""
    own: str = ""
    request: str = "all-reduce"
    bytes: str = "1GiB"
    k: str = "10"
    max_steps: str = ""
    algorithm: str = "auto"
    segments: str = ""
    without: str = ""
    slow: str = ""
    axes: tuple[AxisRow, ...] = ()
    ticked: frozenset[str] = field(default_factory=frozenset)

    @property
    def open(self) -> bool:
        folded = (self.max_steps, self.segments, self.without, self.slow)
        return any(folded) or bool(self.ticked) or self.algorithm != "auto"


EXAMPLE = Filling(count="4", axes=(AxisRow("data", "8", True), AxisRow("model", "4"), AxisRow()))


def of_fields(fields: Fields) -> Filling:
    """The form as it was sent."""
    plain = {name: (fields.get(name) or ("",))[0] for name in _MORE}
    ticked = set(fields.get("reduce", ()))
    names, sizes = fields.get("axis_name", ()), fields.get("axis_size", ())
    axes = [
        AxisRow(name, size, str(number) in ticked)
        for number, (name, size) in enumerate(zip(names, sizes, strict=False))
    ]
    switches = frozenset(name for name in SWITCHES if fields.get(name))
    return Filling(**plain, axes=_enough(axes), ticked=switches)


def of_question(question: TopQuestion) -> Filling:
    """The form that would put a question of ``top`` again."""
    given = question.system
    own = given.text if isinstance(given, NamedText) else ""
    name, _, count = (given.name if isinstance(given, NamedText) else given).partition(":")
    size = question.bytes
    ticked = {
        "per_placement": question.per_placement,
        "across": question.across,
        "explain": question.explain,
        "no_collapse": not question.collapse,
        "no_stripes": not question.stripes,
    }
    axes = [
        AxisRow(axis, str(length), axis in question.reduce)
        for axis, length in question.axes.items()
    ]
    return Filling(
        system="" if own else name,
        count=count,
        own=own,
        request=question.request.value,
        bytes="..".join(str(end) for end in (size if isinstance(size, tuple) else [size])),
        k=str(question.k),
        max_steps=_unless(question.max_steps, 5),
        algorithm=question.algorithm.value,
        segments=_unless(question.segments, "auto"),
        without=", ".join(question.without),
        slow=", ".join(f"{unit}={share:g}" for unit, share in question.slow.items()),
        axes=_enough(axes),
        ticked=frozenset(name for name, on in ticked.items() if on),
    )


def _unless(value: object, usual: object) -> str:
    return "" if value == usual else str(value)


def _enough(rows: list[AxisRow]) -> tuple[AxisRow, ...]:
    """The rows, and empty ones so that without a script there is room for one more."""
    return tuple(rows) + (AxisRow(),) * max(1, _LEAST_ROWS - len(rows))
