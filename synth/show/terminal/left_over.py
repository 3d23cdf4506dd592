"""Words about axes of which a question says nothing: who chose the placement, and what others gain.

One collective recommends no placement: faster ones stand below the ranking, never in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from synth.ask.answers.planning import PlanReply
from synth.ask.answers.ranked import PlacedAnswer, RankingReply, SweepReply
from synth.show.terminal.rows import elsewhere_rows, ranked_table

LAYOUT_TEXT = "as frameworks lay axes out (JAX, torch): the last innermost"


def laid_out_words(reply: RankingReply | SweepReply) -> Iterator[str]:
    """A line on placements that nobody asked for."""
    if reply.laid_out_by:
        yield f"placed {LAYOUT_TEXT}"


def render_left_over(reply: RankingReply | SweepReply) -> Iterator[RenderableType]:
    """What is not priced, how to have it priced, and placements that would be faster alone."""
    others = unreduced_axes_of(reply, reply.answers)
    if not others:
        return
    unpriced = f"not priced: what the axis {' or '.join(others)} sends"
    if not reply.laid_out_by:
        several = len({str(one.placement) for one in reply.answers}) > 1
        yield unpriced + ("; each placement as if nothing else were sent" if several else "")
        return
    yield f"{unpriced};\n{advice(others)}"
    if isinstance(reply, SweepReply):
        return
    if not reply.elsewhere:
        yield "no other placement would be faster if nothing else were sent"
        return
    yield "\nif nothing else were sent, these placements would be faster:"
    yield ranked_table(elsewhere_rows(reply), "placement", "program", "time", "gain", "proof")


def left_over_words(reply: RankingReply | SweepReply) -> Iterator[str]:
    """The same as facts beside a ranking: whose placement it is, and what is not priced."""
    if reply.laid_out_by:
        yield f"placement {LAYOUT_TEXT}"
    if others := unreduced_axes_of(reply, reply.answers):
        yield f"not priced: what {' and '.join(others)} sends"


def unused_axes_lines(reply: PlanReply) -> Iterator[str]:
    """Axes of a job over which nothing goes: a placement may move them about for nothing."""
    said = {name for entry in reply.entries for name in entry.over}
    said |= {name for one in reply.unpriced for name in one.over}
    sizes = reply.ranking[0].axes
    others = [name for name, size in sizes.items() if size > 1 and name not in said]
    if others:
        yield f"not weighed: what the axis {' or '.join(others)} sends, of which nothing is said"


def unreduced_axes_of(
    reply: RankingReply | SweepReply, answers: Sequence[PlacedAnswer]
) -> list[str]:
    """The axes that are not reduced over."""
    axes = answers[0].axes if answers else {}
    return [name for name in axes if name not in reply.reduce]


def advice(others: Sequence[str]) -> str:
    """How to have a placement chosen: by saying what else is sent."""
    flags = " ".join(f"--reduce {name} --bytes ... --times ..." for name in others)
    return f"for a placement that suits all, add {flags}"
