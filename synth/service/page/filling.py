"""What stands in the form: as it was sent, as a question says, or as an example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from synth.service.page.forms import Fields

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


def of_question(question: Mapping[str, Any]) -> Filling:
    """The form that would put a question of ``top`` again."""
    system = question["system"]
    own = system["text"] if isinstance(system, dict) else ""
    name, _, count = (system["name"] if isinstance(system, dict) else system).partition(":")
    size = question["bytes"]
    ticked = {key for key in ("per_placement", "across", "explain") if question.get(key)}
    ticked |= {f"no_{key}" for key in ("collapse", "stripes") if question.get(key) is False}
    axes = [
        AxisRow(axis, str(length), axis in question["reduce"])
        for axis, length in question["axes"].items()
    ]
    return Filling(
        system="" if own else name,
        count=count,
        own=own,
        request=question["request"],
        bytes="..".join(str(end) for end in (size if isinstance(size, list) else [size])),
        k=str(question["k"]),
        max_steps=_unless(question["max_steps"], 5),
        algorithm=question["algorithm"],
        segments=_unless(question["segments"], "auto"),
        without=", ".join(question["without"]),
        slow=", ".join(f"{unit}={share:g}" for unit, share in question["slow"].items()),
        axes=_enough(axes),
        ticked=frozenset(ticked),
    )


def _unless(value: object, usual: object) -> str:
    return "" if value == usual else str(value)


def _enough(rows: list[AxisRow]) -> tuple[AxisRow, ...]:
    """The rows, and empty ones so that without a script there is room for one more."""
    return tuple(rows) + (AxisRow(),) * max(1, _LEAST_ROWS - len(rows))
