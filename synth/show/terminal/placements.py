"""Placements in words, as a matrix, as frameworks' orders of ranks; and axes that are not priced.

One collective does not determine a placement, so the ranking lists faster placements separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

from rich.console import RenderableType

from hierarchies import (
    Axis,
    Domain,
    Hierarchy,
    Level,
    LevelInFull,
    LevelPart,
    Placement,
    describe_axes,
)
from synth.ask.answers.planning import PlanReply
from synth.ask.answers.ranked import RankingReply, SweepReply
from synth.ask.machines import FrameworkOrder, PlacementInWords
from synth.show.terminal.rows import elsewhere_rows, ranked_table
from synth.show.terminal.style import table

Levels = Sequence[LevelPart]
Matrix = Sequence[Sequence[int]]
LAYOUT_TEXT = "in frameworks' default order (JAX, torch): the last axis innermost"
ALREADY_DEFAULT = "already the default"
"""Shown for a framework whose own order it is."""
PLACEMENT_HEADING = "placement (ranks of each axis's first group)"


def placement_of(levels: Levels, axes: Mapping[str, int], matrix: Matrix) -> Placement:
    """Return the placement of a matrix.

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
    """Return a placement in words: ``data on all 8 gpus of a node (ranks 0-7); model ...``."""
    return "; ".join(describe_axes(placement)) or "everything on one device"


def legend(levels: Levels, axes: Iterable[str]) -> str:
    """Return the rows and columns of a placement's matrix."""
    return f"rows {', '.join(axes)}; columns {', '.join(level.name for level in levels)}"


def render_placements(
    levels: Levels, axes: Mapping[str, int], matrices: Sequence[Matrix]
) -> Iterator[RenderableType]:
    """Yield the distinct placements of some answers, in words and as matrices."""
    texts = {
        str(matrix): describe_placement(placement_of(levels, axes, matrix)) for matrix in matrices
    }
    if len(texts) > 1:
        rows = table(PLACEMENT_HEADING, "matrix", wraps=PLACEMENT_HEADING)
        for matrix, text in texts.items():
            rows.add_row(text, matrix)
        yield rows
        yield legend(levels, axes)
    for matrix, text in texts.items() if len(texts) == 1 else ():
        yield f"placement: {text}\n{matrix}: {legend(levels, axes)}"


def rank_orders(
    levels: Sequence[LevelInFull], axes: Mapping[str, int], matrix: Matrix, of: str = ""
) -> Iterator[RenderableType]:
    """Yield the rank order that a placement needs in each framework."""
    how = "by coordinates" if _is_torus(levels) else "host by host"
    yield f"\nrank order{of}, devices numbered {how}:"
    yield from order_table(find_conventions(levels, axes, matrix))


def find_conventions(
    levels: Sequence[LevelInFull], axes: Mapping[str, int], matrix: Matrix
) -> Iterable[FrameworkOrder]:
    """Return the rank order that a placement needs in each framework. Raises InputError."""
    return PlacementInWords.of(placement_of(levels, axes, matrix), _is_torus(levels)).orders


def _is_torus(levels: Sequence[LevelInFull]) -> bool:
    return all(level.domain is Domain.TORUS for level in levels)


def summarize_conventions(found: Iterable[FrameworkOrder]) -> Iterator[tuple[str, str]]:
    """Yield frameworks with the same convention, and its text."""
    found = list(found)
    if same := [each.framework for each in found if each.default]:
        yield ", ".join(same), ALREADY_DEFAULT
    lines: dict[str, list[str]] = {}
    for convention in found:
        if not convention.default:
            # Lines that differ only in the framework's name at their end are merged into one.
            say = convention.say.removesuffix(convention.framework.lower())
            lines.setdefault(say, []).append(convention.framework)
    for say, frameworks in lines.items():
        order = "|".join(frameworks).lower() if say.endswith("--rank-order ") else ""
        yield ", ".join(frameworks), say + order


def order_table(found: Iterable[FrameworkOrder]) -> Iterator[RenderableType]:
    """Yield the setting of each framework."""
    made = table("framework", "what to do", wraps="what to do")
    made.show_header = False
    for frameworks, say in summarize_conventions(found):
        made.add_row(f"  {frameworks}", say)
    yield made


def laid_out_words(reply: RankingReply | SweepReply) -> Iterator[str]:
    """Yield a line where the question gives no placement."""
    if reply.laid_out_by:
        yield f"placed {LAYOUT_TEXT}"


def render_left_over(reply: RankingReply | SweepReply) -> Iterator[RenderableType]:
    """Yield axes that are not priced, and placements that are faster for this collective only."""
    others = _unreduced_axes(reply)
    if not others:
        return
    unpriced = f"not priced: communication over {' and '.join(others)}"
    if not reply.laid_out_by:
        several = len({str(answer.placement) for answer in reply.answers}) > 1
        yield unpriced + ("; each placement is priced for this collective alone" if several else "")
        return
    flags = " ".join(f"--reduce {name} --bytes ... --times ..." for name in others)
    yield f"{unpriced};\nfor a placement that considers all communication, add {flags}"
    if isinstance(reply, SweepReply):
        return
    if not reply.elsewhere:
        yield "no other placement is faster for this collective alone"
        return
    yield "\nfaster placements for this collective alone:"
    yield ranked_table(elsewhere_rows(reply), "placement", "program", "time", "gain", "proof")


def left_over_words(reply: RankingReply | SweepReply) -> Iterator[str]:
    """Yield the same as facts for a page."""
    if reply.laid_out_by:
        yield f"placement {LAYOUT_TEXT}"
    if others := _unreduced_axes(reply):
        yield f"not priced: communication over {' and '.join(others)}"


def unused_axes_lines(reply: PlanReply) -> Iterator[str]:
    """Yield the axes of a job that no entry uses: their placement does not affect prices."""
    used = {name for entry in reply.entries for name in entry.over}
    used |= {name for entry in reply.unpriced for name in entry.over}
    sizes = reply.ranking[0].axes
    others = [name for name, size in sizes.items() if size > 1 and name not in used]
    if others:
        axes = " and ".join(others)
        yield f"not considered: communication over {axes}, which the job does not list"


def _unreduced_axes(reply: RankingReply | SweepReply) -> list[str]:
    axes = reply.answers[0].axes if reply.answers else {}
    return [name for name in axes if name not in reply.reduce]
