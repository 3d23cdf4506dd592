"""Placements as people read them: in words first, then the matrix, then each framework's order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

from rich.console import RenderableType

from hierarchies import Axis, Domain, Hierarchy, Level, Placement, describe_axes
from synth.ask.answers.machine_parts import LevelInBrief, LevelInFull
from synth.collective.emit.conventions import ConventionText, conventions, summarize_conventions
from synth.show.terminal.style import table

Levels = Sequence[LevelInBrief]
Matrix = Sequence[Sequence[int]]


def placement_of(levels: Levels, axes: Mapping[str, int], matrix: Matrix) -> Placement:
    """The placement that an answer has as a matrix.

    Its columns say how many units each level has: an answer's healthy machine may be larger.
    """
    counts = map(prod, zip(*matrix, strict=True))
    names = (level.name for level in levels)
    return Placement(
        Hierarchy(tuple(Level(name, count) for name, count in zip(names, counts, strict=True))),
        tuple(Axis(name, size) for name, size in axes.items()),
        tuple(tuple(row) for row in matrix),
    )


def describe_placement(placement: Placement) -> str:
    """Where each axis lies: ``data on all 8 gpus of a node (ranks 0-7); model across ...``."""
    return "; ".join(describe_axes(placement)) or "everything on one device"


def legend(levels: Levels, axes: Iterable[str]) -> str:
    """What the rows and columns of a placement's matrix mean."""
    return f"rows {', '.join(axes)}; columns {', '.join(level.name for level in levels)}"


def render_placements(
    levels: Levels, axes: Mapping[str, int], matrices: Sequence[Matrix]
) -> Iterator[RenderableType]:
    """The placements of some answers, each once: in words, and its matrix."""
    if not matrices:
        return
    different = {str(matrix): matrix for matrix in matrices}
    said = {
        text: describe_placement(placement_of(levels, axes, one)) for text, one in different.items()
    }
    if len(said) == 1:
        for text, each in said.items():
            yield f"placement: {each}\n{text}: {legend(levels, axes)}"
        return
    where = "placement (ranks of each axis's first group)"
    made = table(where, "matrix", wraps=where)
    for text, each in said.items():
        made.add_row(each, text)
    yield made
    yield legend(levels, axes)


def rank_orders(
    levels: Sequence[LevelInFull], axes: Mapping[str, int], matrix: Matrix, of: str = ""
) -> Iterator[RenderableType]:
    """What a placement asks of each framework: nothing, or the line to change."""
    torus = all(level.domain is Domain.TORUS for level in levels)
    found = conventions(placement_of(levels, axes, matrix), torus)
    yield f"\nrank order{of}, devices counted {'by coordinates' if torus else 'host by host'}:"
    yield from order_table(found)


def order_table(found: Iterable[ConventionText]) -> Iterator[RenderableType]:
    """What is said of each framework."""
    made = table("framework", "what to do", wraps="what to do")
    made.show_header = False
    for frameworks, say in summarize_conventions(found):
        made.add_row(f"  {frameworks}", say)
    yield made
