"""Rankings as tables: the best answers at a size, and the best answer over a range of sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rich.console import RenderableType

from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.degraded import UnevenReply
from synth.ask.answers.machine_parts import MachineInFull
from synth.ask.answers.parts import AdviceKind, explain_scope
from synth.ask.answers.planning import (
    PlacementOption,
    PlannedEntry,
    PlanReply,
    SystemsRankedReply,
    UnpricedEntry,
)
from synth.ask.answers.ranked import (
    DefaultComparison,
    PlacedAnswer,
    RankedAnswer,
    RankingReply,
    SweepReply,
)
from synth.collective.price.resolution import FINEST
from synth.show.terminal.deciding import mark_lines
from synth.show.terminal.degraded import render_uneven
from synth.show.terminal.placements import (
    Matrix,
    describe_placement,
    laid_out_words,
    placement_of,
    rank_orders,
    render_left_over,
    render_placements,
    unused_axes_lines,
)
from synth.show.terminal.rows import (
    RankingRow,
    StripeText,
    default_by_size,
    default_rows,
    ranked_table,
    rows,
)
from synth.show.terminal.style import (
    Columns,
    axes_text,
    considered_text,
    faults_text,
    interval_text,
    paragraphs,
    pluralize,
    price_basis_lines,
    request_text,
    shape,
    stopped_warning,
    table_of,
    times_text,
)
from synth.show.terminal.verdict import later_default_lines, render_decision

_TIE = "tie: the difference is within prediction error; none: no runtime offers it"
_SPEEDUP = f"speed-up: over the default, the runtime's own choice on the same placement;\n{_TIE}"
_SPEEDUP_OVER_BEST = (
    "speed-up: over the best default, the runtime's own choice on the best of these placements"
    f";\n{_TIE}"
)
_NEAR = "near: number of other programs that tie with it; the simplest is shown"
_BOUND = "bound: share of the time that no schedule can avoid"


def render_top(reply: RankingReply | SweepReply | UnevenReply | PlanReply) -> RenderableType:
    """Return the ranking of a size or a range of sizes, or the plan of several collectives."""
    match reply:
        case PlanReply():
            return render_plan(reply)
        case SweepReply():
            return render_sweep(reply)
        case UnevenReply():
            return render_uneven(reply)
        case RankingReply():
            return render_ranking(reply)


def render_ranking(reply: RankingReply) -> RenderableType:
    """Return the ranking of one size."""
    axes = reply.answers[0].axes if reply.answers else {}
    matrices = [answer.placement for answer in reply.answers]
    near = ["near"] * any(answer.others for answer in reply.answers)
    columns = _add_placement_column("#", "program", *near, "time", "busbw", "speed-up", "bound",
                              "limited by", "proof", matrices=matrices)  # fmt: skip
    programs = pluralize(reply.considered.programs, "program")
    default = format_duration(reply.best_default_seconds)
    return paragraphs(
        *_question_lines(reply, axes, matrices, reply.bytes),
        ranked_table([*default_rows(reply), *rows(reply)], *columns),
        *_reasons(reply),
        *_to_do_lines(reply.answers),
        *([*render_decision(reply)] or _later_default_lines(reply)),
        *_rank_orders(reply.system, reply.answers[:1]),
        f"\n{considered_text(reply.considered)}, {programs} ranked; best default: {default}",
        _busbw(reply.system),
        _SPEEDUP_OVER_BEST if "placement" in columns else _SPEEDUP,
        *mark_lines(rows(reply)),
        _BOUND,
        *[_NEAR] * len(near),
        *_ties(reply.answers, "answer", reply.system),
        *render_left_over(reply),
        stopped_warning(reply.complete),
    )


def _busbw(system: MachineInFull) -> str:
    return f"busbw: GB/s, {system.runtime.counted}".replace(", as", " as")


def _add_placement_column(first: str, *columns: str, matrices: Sequence[Matrix]) -> list[str]:
    """Return the columns of a ranking, with the placement if there are several."""
    several = len({str(matrix) for matrix in matrices}) > 1
    return [first, *["placement"] * several, *columns]


def _rank_orders(
    system: MachineInFull, answers: Sequence[PlacedAnswer]
) -> Iterator[RenderableType]:
    for answer in answers:
        yield from rank_orders(system.levels, answer.axes, answer.placement, f" of {answer.rank}")


def _question_lines(
    reply: RankingReply | SweepReply,
    axes: Mapping[str, int],
    matrices: Sequence[Matrix],
    *sizes_bytes: int,
) -> Iterator[RenderableType]:
    """Yield the question, the machine and the placements of the answers."""
    asked, system = request_text(reply.request, reply.reduce, *sizes_bytes), reply.system
    yield f"{asked}, {axes_text(axes)} on {system.name}, {shape(system.levels)}"
    if lacks := faults_text(system.exceptions):
        yield lacks
    yield from render_placements(system.levels, axes, matrices)
    yield from laid_out_words(reply)
    yield ""


def render_sweep(reply: SweepReply) -> RenderableType:
    """Return the best answer of each stretch of sizes."""
    axes = reply.stretches[0].first.axes if reply.stretches else {}
    matrices = [stretch.first.placement for stretch in reply.stretches]
    columns = _add_placement_column(
        "sizes", "program", "time", "busbw", "speed-up", "bound", "proof", matrices=matrices
    )
    return paragraphs(
        *_question_lines(reply, axes, matrices, *reply.bytes),
        ranked_table(rows(reply), *columns),
        *render_decision(reply),
        f"\n{pluralize(len(reply.sizes), 'size')} priced; crossovers are accurate to 1%; one"
        " program per size: a question about one\nsize also considers stripes, which may be faster",
        f"default: {'; '.join(default_by_size(reply))}",
        f"{_busbw(reply.system)}\n{_SPEEDUP}",
        *mark_lines(rows(reply)),
        f"{_BOUND}; at the first and the last size",
        *price_basis_lines(reply.system),
        *(
            [_interval_legend(reply.system)]
            if any(answer.interval_seconds for answer in reply.answers)
            else []
        ),
        *render_left_over(reply),
        stopped_warning(reply.complete),
    )


def _interval_legend(system: MachineInFull) -> str:
    if system.prices == "typical":
        return "below each time: the range of 9 in 10 machines with such links"
    return "below each time: the range of 9 in 10 measurements at such prices"


def render_ranked_systems(reply: SystemsRankedReply) -> RenderableType:
    """Return a table of each system's best answer, or a table per system over a range of sizes."""
    first = reply.systems[0]
    if isinstance(first, SweepReply):
        each = [part for ranking in reply.systems for part in (render_top(ranking), "")]
        return paragraphs(*each, stopped_warning(reply.complete))
    if isinstance(first, PlanReply):
        plans = [plan for plan in reply.systems if isinstance(plan, PlanReply)]
        return paragraphs(*_render_plans(plans), stopped_warning(reply.complete))
    columns = ("system", "program", "time", "busbw", "speed-up", "limited by", "proof")
    others = [
        ranking for ranking in reply.systems if isinstance(ranking, RankingReply | UnevenReply)
    ]
    asked = request_text(first.request, first.reduce, first.bytes)
    return paragraphs(
        f"{asked}: the best on each of {pluralize(len(reply.systems), 'system')}\n",
        ranked_table((_best_row(ranking) for ranking in others if ranking.answers), *columns),
        "",
        *(line for ranking in others for line in _best_placement(ranking)),
        *(laid_out_words(first) if isinstance(first, RankingReply) else ()),
        f"{_busbw(first.system)}\n{_SPEEDUP}",
        *mark_lines(_best_row(ranking) for ranking in others if ranking.answers),
        stopped_warning(reply.complete),
    )


def _render_plans(plans: Sequence[PlanReply]) -> Iterator[RenderableType]:
    """Yield the best placement of each system for a job, with its exposed communication."""
    yield f"{plans[0].title}: the best placement on each of {pluralize(len(plans), 'system')}\n"
    yield table_of(plans, _PLAN_CELLS, right="exposed,with defaults")
    yield "exposed: communication of a step that compute does not hide"


_PLAN_CELLS: Columns[PlanReply] = {
    "system": lambda plan: plan.system.name,
    "placement": lambda plan: str(plan.ranking[0].placement),
    "exposed": lambda plan: format_duration(plan.ranking[0].exposed_seconds),
    "with defaults": lambda plan: format_duration(plan.default_exposed_seconds),
}


def _best_row(reply: RankingReply | UnevenReply) -> RankingRow:
    """Return the first row, titled with the name of the system."""
    row = replace(rows(reply)[0], title=(reply.system.name,), intervals=())
    if isinstance(reply, UnevenReply):
        whole = StripeText((reply.answers[0].program,), "", "")
        return replace(row, placement="uneven", stripes=(whole,))
    return row


def _best_placement(reply: RankingReply | UnevenReply) -> Iterator[str]:
    if isinstance(reply, RankingReply) and reply.answers:
        best = reply.answers[0]
        lies = describe_placement(placement_of(reply.system.levels, best.axes, best.placement))
        yield f"{reply.system.name}: {lies}, {best.placement}"


def render_plan(reply: PlanReply) -> RenderableType:
    """Return the placement of a job, its entries, and the next best placements."""
    best, *others = reply.ranking
    exposed, default = best.exposed_seconds, reply.default_exposed_seconds
    longer = default / reply.runtime_exposed_seconds if exposed else 1.0
    told = longer > 1 + FINEST and any(_gains(reply.entries))
    gain = f", {longer:.2f} times as long" if told else ", a tie"
    return paragraphs(
        ": ".join(filter(None, (reply.job, reply.title))),
        f"on {reply.system.name}, {shape(reply.system.levels)}: {axes_text(best.axes)}",
        faults_text(reply.system.exceptions) or None,
        *render_placements(reply.system.levels, best.axes, [best.placement]),
        f"exposed communication (not hidden by compute): {format_duration(exposed)} a step\n"
        f"(with the runtime's defaults on the same placement {format_duration(default)}{gain})\n",
        *_entries(reply),
        *_gains(reply.entries),
        *render_decision(reply),
        "",
        *_other_placements(reply.system, best, others),
        *_ties(reply.ranking, "placement", reply.system),
        *_unpriced_lines(reply.unpriced),
        *unused_axes_lines(reply),
        *rank_orders(reply.system.levels, best.axes, best.placement),
        "",
        f"{considered_text(reply.considered)}; the cost of compute is not considered",
        "total: times x per call; exposed: the part of it that is not hidden",
        "loss: per call, against the placement that is best for this entry alone",
        stopped_warning(reply.complete),
    )


def _entries(reply: PlanReply) -> Iterator[RenderableType]:
    """Yield the costs of entries, then their programs: two tables, so that both fit a terminal."""
    if not reply.entries:
        yield "no collectives: all their axes have size 1"
        return
    right = "#,bytes,times,per call,total,hidden,exposed,loss"
    yield table_of(reply.entries, _COSTS, right=right, wraps="entry")
    yield ""
    requests = [entry.request.value for entry in reply.entries]
    titled = [
        replace(row, title=(request,)) for row, request in zip(rows(reply), requests, strict=True)
    ]
    columns = ("#", "request", "program", "speed-up", "bound", "limited by", "proof")
    yield ranked_table(titled, *columns)


def _gains(entries: Sequence[PlannedEntry]) -> Iterator[str]:
    """Yield the settings or files of the entries that are faster than the default."""
    for entry in entries:
        if entry.answer.against_default is DefaultComparison.FASTER:
            yield f"\n{entry.name}: {entry.answer.advice.text}"
            yield from _side_effect_lines(entry, entries)


def _side_effect_lines(entry: PlannedEntry, entries: Iterable[PlannedEntry]) -> Iterator[str]:
    """Yield the other entries that an environment variable affects."""
    if entry.answer.advice.by is AdviceKind.ENVIRONMENT:
        same = (other for other in entries if other.request is entry.request and other is not entry)
        others = ", ".join(other.name for other in same)
        yield f"  {explain_scope(entry.request.value)}{f'; here also for {others}' * bool(others)}"


LESS_IS_NO_BETTER = (
    "a smaller value here ties with the first, which is in frameworks' default order of axes"
)
_COSTS: Columns[PlannedEntry] = {
    "#": lambda entry: str(entry.answer.rank),
    "entry": lambda entry: entry.name,
    "over": lambda entry: ",\n".join(entry.over),
    "bytes": lambda entry: format_bytes(entry.bytes),
    "times": lambda entry: f"{entry.times:g}",
    "per call": lambda entry: format_duration(entry.answer.seconds),
    "total": lambda entry: format_duration(entry.times * entry.answer.seconds),
    "hidden": lambda entry: f"{entry.hidden:.0%}",
    "exposed": lambda entry: format_duration(entry.exposed_seconds),
    "loss": lambda entry: f"{entry.loss:.2f}x",
}


def _other_placements(
    system: MachineInFull, best: PlacementOption, options: list[PlacementOption]
) -> Iterator[RenderableType]:
    """Yield the next best placements, with a note if a less exposed one ties with the first."""

    def lies(option: PlacementOption) -> str:
        where = describe_placement(placement_of(system.levels, option.axes, option.placement))
        return f"{where}\n{option.placement}"

    def waits(option: PlacementOption) -> str:
        intervals = map(interval_text, filter(None, [option.interval_seconds]))
        return "\n".join([format_duration(option.exposed_seconds), *intervals])

    if options:
        cells = {
            "next best": lambda option: axes_text(option.axes).replace(", ", ",\n"),
            "placement": lies,
            "exposed": waits,
        }
        yield table_of(options, cells, right="exposed", wraps="placement")
        if any(option.exposed_seconds < best.exposed_seconds for option in options):
            yield LESS_IS_NO_BETTER
        yield ""


def _ties(
    ranked: Sequence[RankedAnswer | PlacementOption], what: str, system: MachineInFull
) -> Iterator[str]:
    """Yield the basis of prices, and the answers that tie with the first, including the default.

    Measurements cannot distinguish their prices. Measurements of other machines do not show which
    of two answers is faster.
    """
    first = ranked[0] if ranked else None
    yield from price_basis_lines(system)
    if first is None or first.interval_seconds is None:
        return
    text = _interval_legend(system)
    many_tied = sum(option.tied for option in ranked)
    if many_tied > 1 and system.prices != "typical":
        text += f"\n{pluralize(many_tied, what)} tie with the first within prediction error"
    yield text


def _later_default_lines(reply: RankingReply) -> Iterator[str]:
    """Yield the default of NCCL after 2.28, where it differs."""
    if reply.answers:
        plain = min(reply.answers, key=lambda answer: answer.baseline_seconds)
        yield from (f"\n{line}" for line in later_default_lines(reply.request.value, plain, None))


def _to_do_lines(answers: Sequence[RankedAnswer]) -> Iterator[str]:
    """Yield the best answer that a runtime offers, where the first is not one."""
    if answers and answers[0].against_default is DefaultComparison.NOT_OFFERED:
        offered = (
            answer for answer in answers if answer.against_default is DefaultComparison.FASTER
        )
        best = next(offered, None)
        least = (
            "none here is faster than the default; a larger -k, or --algorithm ring, may show one"
        )
        yield f"\nbest that runtimes offer: {f'{best.rank}, {best.advice.text}' if best else least}"


def _unpriced_lines(entries: list[UnpricedEntry]) -> Iterator[str]:
    for entry in entries:
        size = (
            f"{format_bytes(entry.bytes)} over {', '.join(entry.over)}, {times_text(entry.times)}"
        )
        yield f"not priced: {entry.name} ({size}): {entry.why}"


def _reasons(reply: RankingReply) -> Iterator[str]:
    """Yield the reasons of the first answer, or of all with ``--explain``."""
    for answer in reply.answers if reply.explain else reply.answers[:1]:
        yield f"\n{answer.rank}: " + ";\n   ".join(answer.why)
