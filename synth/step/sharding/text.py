"""Parses recipes: ``data=8 tensor=4; batch over data; weights over tensor as Megatron``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from grammar.tensors.sharding import Sharding
from hierarchies import InputError
from synth.step.redistribution.paths import CostPriority
from synth.step.schedules import chunks_of
from synth.step.sharding.recipes import AND, CLAUSES, Recipe

_RUN = r"(?:\d{1,3} times )?\d{1,5}"
RUNS = rf"{_RUN}(?:, {_RUN})*"
"""Pattern of the layers of stages, in runs of equal numbers."""

CLAUSE_PATTERNS: Mapping[str, str] = {
    **{
        text.format("AXIS"): text.format(r"(\w+(?: and \w+)*)" if name == "batch" else r"(\w+)")
        for name, (text, _) in CLAUSES.items()
    },
    "weights LABEL[DIMENSION] over AXIS": r"weights ([\w/.-]+)\[(-?\d{1,2})\] over (\w+)",
    "input LABEL as [AXIS,-]": r"input ([\w/.-]+) as (\[.*\](?:\{.*\})?)",
    "zero=1": r"zero=(\d)",
    "8 microbatches": r"(\d{1,6}) microbatch(?:es)?",
    "schedule 1f1b, 8 microbatches": (
        r"schedule ([\w-]+),(?: (\d{1,3}) chunks,)? (\d{1,6}) microbatch(?:es)?"
    ),
    "stages of 7, 14 times 8, 7 layers": rf"stages of ({RUNS}) layers",
    "gradients in bf16": r"gradients in (\w{1,10})",
    "remat layers": r"remat layers",
    "buckets of 25 MB": r"buckets of (\d{1,6}(?:\.\d{1,6})?) MB",
    "fewest requests": r"fewest requests",
}
"""The pattern of each clause, keyed by an example."""

_HINT = f"axes first (data=8 tensor=4), then of {', '.join(map(repr, CLAUSE_PATTERNS))}"
_AXIS = re.compile(r"([A-Za-z_]\w*)=([1-9]\d{0,8})")


def parse_recipe(text: str) -> Recipe:
    """Parses a recipe. Raises InputError with the part that is not understood."""
    axes, *rest = (" ".join(part.split()) for part in text.split(";"))
    sizes = parse_axes(axes)
    fields: dict[str, Any] = {}
    for part in rest:
        for name, value in _parse_clause(part).items():
            if name in _REPEATED_CLAUSES:
                fields[name] = (*fields.get(name, ()), *value)
            elif name in fields:
                raise InputError(f"given twice: {part!r}", where="plan", hint=_HINT)
            else:
                fields[name] = value
    return Recipe(sizes, **fields)


def parse_axes(text: str) -> tuple[tuple[str, int], ...]:
    """Parses axes with their sizes: ``data=8 tensor=4``."""
    matches = [_AXIS.fullmatch(word) for word in text.split()]
    if not matches or None in matches:
        raise InputError(f"no axes in {text!r}", where="plan", hint=_HINT)
    sizes = [(match[1], int(match[2])) for match in matches if match is not None]
    if len(dict(sizes)) < len(sizes):
        raise InputError(f"an axis is given twice in {text!r}", where="plan")
    return tuple(sizes)


def parse_sharding(text: str) -> Sharding:
    """Parses ``[data,-,(seq,tensor)]``: the axes that cut each dimension, major to minor.

    A flat cut, and the dimension from which it starts, may follow: ``[-,-,-]{flat1:data}``.
    """
    bare, _, rest = text.strip().partition("{")
    words = re.findall(r"\([^()]*\)|[^,()]+", bare.removeprefix("[").removesuffix("]"))
    flat = _FLAT.fullmatch(rest) if rest else None
    is_understood = f"[{','.join(words)}]" == bare and all(map(_SHARDING_WORD.fullmatch, words))
    if not is_understood or (flat is None) is not (rest == ""):
        hint = "for each dimension give an axis, several axes in brackets, or '-', as in [data,-]"
        raise InputError(f"not understood: {text!r}", where="plan", hint=hint)
    cut = tuple(map(_parse_cutting_axes, words))
    if flat is None:
        return Sharding(cut)
    return Sharding(cut, (), _parse_cutting_axes(flat[2]), int(flat[1] or 0))


def _parse_cutting_axes(word: str) -> tuple[str, ...]:
    return () if word == "-" else tuple(word.strip("()").split(","))


def parse_shares(text: str) -> tuple[int, ...]:
    """Parses the number of layers of each stage: ``7, 14 times 8, 7``."""
    runs = (run.rpartition(" times ") for run in text.split(", "))
    return tuple(int(size) for times, _, size in runs for _ in range(int(times or 1)))


_REPEATED_CLAUSES = ("weights", "inputs")
"""Fields whose clauses may be repeated."""

_FLAT = re.compile(r"flat(\d{0,2}):(\w+|\(\w+(?:,\w+)+\))\}")
_SHARDING_WORD = re.compile(r"-|\w+|\(\w+(,\w+)+\)")


def _parse_clause(part: str) -> dict[str, Any]:
    """Returns the fields of a recipe that one part of its text sets."""
    for pattern, parser in zip(CLAUSE_PATTERNS.values(), _PARSERS, strict=True):
        if match := re.fullmatch(pattern, part):
            return parser(*match.groups())
    raise InputError(f"not understood: {part!r}", where="plan", hint=_HINT)


def _clause_parser(clause: str) -> Callable[[str], dict[str, Any]]:
    return lambda axes: {clause: tuple(axes.split(AND)) if clause == "batch" else axes}


def _parse_bytes(megabytes: str) -> int:
    count = round(float(megabytes) * 1e6)
    if not count:
        raise InputError(f"buckets of {megabytes} MB", where="plan", hint="as in: buckets of 25 MB")
    return count


_PARSERS: tuple[Callable[..., dict[str, Any]], ...] = (
    *map(_clause_parser, CLAUSES),
    lambda label, place, axis: {"weights": ((label, int(place), axis),)},
    lambda label, sharding: {"inputs": ((label, parse_sharding(sharding)),)},
    lambda zero: {"zero": int(zero)},
    lambda count: {"microbatches": int(count)},
    lambda name, chunks, count: {
        "schedule": name,
        "chunks": int(chunks) if chunks else chunks_of(name),
        "microbatches": int(count),
    },
    lambda runs: {"layers": parse_shares(runs)},
    lambda kind: {"gradients": kind},
    lambda: {"remat": True},
    lambda megabytes: {"bucket_bytes": _parse_bytes(megabytes)},
    lambda: {"first": CostPriority.REQUESTS},
)
"""For each clause, a function from the groups of its match to fields of a recipe."""
