"""Verdicts of answers: keep the default, measure, or set or paste something.

Users have a decision to make. Therefore the verdict precedes the rows on which it is based, and
considers only rows whose gain exceeds prediction error, which z3 proved and a runtime offers. If
prices do not decide, and a gain is expected, the default is kept until a run decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isinf

from rich.console import RenderableType

from hierarchies import InputError, LevelInFull
from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.degraded import UnevenReply
from synth.ask.answers.parts import (
    HIERARCHICAL,
    NVLS_OF_TWO,
    AdviceKind,
    explain_scope,
    hierarchical_need,
    parse_version,
)
from synth.ask.answers.planning import PlacementOption, PlannedEntry, PlanReply
from synth.ask.answers.ranked import (
    DefaultComparison,
    PlacedAnswer,
    RankedAnswer,
    RankingReply,
    SweepReply,
)
from synth.ask.taking import best_available, groups_gain, is_available, job_gains
from synth.collective.price.resolution import FINEST
from synth.show.terminal.deciding import (
    RowRun,
    ToDo,
    decision_rule,
    find_deciding_runs,
    has_multiple_placements,
    is_wide,
    parse_emit_command,
    render_choices,
    row_name,
    to_do_of_run,
)
from synth.show.terminal.placements import (
    ALREADY_DEFAULT,
    Levels,
    Matrix,
    describe_placement,
    find_conventions,
    placement_of,
    summarize_conventions,
)
from synth.show.terminal.rows import Ranking, RankingRow, rows
from synth.show.terminal.style import nccl_name, pluralize, price_basis, price_basis_lines

KEEP = "Keep the default"
_HOOKS = {
    "all-reduce": "install_ddp(model)",
    "all-gather": "install_fsdp2(model)",
    "reduce-scatter": "install_fsdp2(model)",
}
"""The function of a PyTorch file that installs its program in a training step."""
FOR_ONE_CALL = "emit --target nccl (NCCL 2.31.2 or later) or nccl-plugin (2.28.3) instead"
"""The ways to set an algorithm that change no other call."""
BY_SIZE = "a tuner plugin for NCCL"
"""The only way to set a different algorithm for each size."""


@dataclass(frozen=True)
class Verdict:
    """What to do, why, and how; nothing ``to_do`` where the default is kept, or what to run.

    ``orders``: what its placement asks of frameworks that lay axes out otherwise;
    ``decision_rule``: what is measured that decides, where something is to be run; ``of``: what
    each thing to do is about.
    """

    headline: str
    lines: Sequence[str]
    orders: Sequence[tuple[str, str]] = ()
    to_do: Sequence[ToDo] = ()
    decides: str = ""
    of: str = "row"


def verdict(reply: Ranking) -> Verdict | None:
    """Return the verdict of an answer; None where nothing was found."""
    found = rows(reply)
    if not found:
        return None
    match reply:
        case RankingReply():
            return _ranking_verdict(reply, found)
        case SweepReply():
            return _sweep_verdict(reply, found)
        case UnevenReply():
            return _uneven_verdict(reply, found[0])
        case PlanReply():
            return _job_verdict(reply, found)


def render_decision(reply: Ranking) -> Iterator[RenderableType]:
    """Yield what to do, in a terminal; nothing where the default is kept.

    For a job, its exposed communication precedes its entries and their certain gains with side
    effects. The basis of prices comes last.
    """
    decision, job = verdict(reply), isinstance(reply, PlanReply)
    if decision and (decision.decides or (decision.to_do and not job)):
        below = [*price_basis_lines(reply.system)]
        lines = () if job else (line for line in decision.lines if line not in below)
        yield "\n".join(["", decision.headline, *lines])
        yield from render_choices(decision.of, decision.to_do, decision.decides)


def row_to_do(
    decision: Verdict | None, answer: PlacedAnswer, row: int, name: str, request: str, speedup: str
) -> ToDo | None:
    """Return the action for any row: the verdict's, else that of the row alone."""
    for choice in decision.to_do if decision else ():
        if choice.row == row:
            return choice
    if answer.worth_measuring:
        return to_do_of_run(RowRun(row, name, answer.worth_measuring))
    return to_do_of_answer(answer, row, name, request, speedup) if is_available(answer) else None


def _ranking_verdict(reply: RankingReply, found: Sequence[RankingRow]) -> Verdict:
    plain = min(reply.answers, key=lambda answer: answer.baseline_seconds)
    if not plain.steps:
        return Verdict("Nothing to do", ["the collective is over one device"])
    best = best_available(reply.answers)
    default = f"the best default, {plain.default.name},"
    runs = [] if best else find_deciding_runs(reply)
    takes = format_duration(plain.baseline_seconds)
    place = best or (reply.answers[runs[0].row] if runs else plain)
    later = [
        *later_default_lines(reply.request.value, plain, best),
        *_two_level_lines(reply, plain, best),
        *filter(None, [place.unmeasured]),
    ]
    more = (*_placement_lines(reply, place), *price_basis_lines(reply.system))
    orders = _orders(reply.system.levels, place.axes, place.placement)
    if runs:
        return _measuring_verdict(runs, [f"{default} takes {takes}", *more], orders, later)
    if best is None:
        why = _keep_reason(reply.answers, plain.baseline_seconds)
        return Verdict(KEEP, [f"{default} takes {takes}; {why}", *later, *more], orders)
    row = reply.answers.index(best)
    gain = f"{format_duration(best.runtime_seconds)}, where {default} takes {takes}"
    to_do = [
        to_do_of_answer(best, row, f"row {best.rank}", reply.request.value, found[row].speedup[0])
    ]
    line = best.advice.text
    whole = [explain_scope(reply.request.value, line=line)]
    whole *= best.advice.by is AdviceKind.ENVIRONMENT
    return Verdict(
        f"{found[row].speedup[0]}: do this", [gain, *later, *whole, *more], orders, to_do
    )


def _measuring_verdict(
    runs: Sequence[RowRun],
    lines: Sequence[str],
    orders: Sequence[tuple[str, str]] = (),
    first: Sequence[str] = (),
    of: str = "row",
) -> Verdict:
    """Return the verdict to keep the default until a measurement, with its gain and its rule.

    ``first`` has the sentences before it, on which the default depends.
    """
    most = max(run.worth.speedup for run in runs)
    headline = f"{KEEP}; worth measuring: {'up to ' * (len(runs) > 1)}{most:.2f}x"
    lines = [*first, *lines]
    return Verdict(
        headline, lines, orders, [to_do_of_run(run) for run in runs], decision_rule(runs), of
    )


def _keep_reason(answers: Sequence[RankedAnswer], default_seconds: float) -> str:
    """Return the reason to keep the default: a faster row is not available, or there is none."""
    first = min(answers, key=lambda answer: answer.seconds)
    at = f"{row_name(first, answers)}, {format_duration(first.seconds)}"
    if first.against_best in (DefaultComparison.FASTER, DefaultComparison.NOT_OFFERED):
        return f"{at}: {first.advice.text if first.proof == 'proved' else 'it is not proved'}"
    if first.seconds < default_seconds:
        return f"{at}, ties with it (within prediction error)"
    return "nothing is faster"


def later_default_lines(
    request: str, plain: PlacedAnswer, best: RankedAnswer | None = None
) -> Iterator[str]:
    """Yield the NCCL version of the default's price, and a different default of later versions.

    Later versions have NVLS, unlike the version priced. The lines state the remaining gain, or the
    setting that keeps the priced default if it is faster.
    """
    if not (later := plain.later_default):
        return
    text = _later_default_text(plain)
    if best:
        gain = later.seconds / best.runtime_seconds
        over = f"{gain:.2f}x" if gain > 1 + FINEST else "nothing"
        yield f"{text}; over that row {best.rank} gains {over}"
    elif _is_later_slower(plain):
        yield (
            f"{text}. {plain.default.setting(request)} keeps what is priced: "
            f"{explain_scope(request)}"
        )
    else:
        yield text


def _two_level_lines(
    reply: RankingReply, plain: PlacedAnswer, best: RankedAnswer | None
) -> Iterator[str]:
    """Yield NCCL's own two-level kernels, where its version has them, and whether they are faster.

    Its default does not use them, because they need registered buffers.
    """
    seconds = plain.defaults.get(HIERARCHICAL)
    if not reply.system.nccl or not seconds:
        return
    text = f"{_two_level_name(reply)}: about {format_duration(seconds)}"
    if seconds * (1 + FINEST) >= plain.baseline_seconds:
        yield f"{text}, no faster than its default"
        return
    text += f", not {format_duration(plain.baseline_seconds)}; it needs {_two_level_need(reply)}"
    if best:
        gain = seconds / best.runtime_seconds
        over = f"{gain:.2f}x" if gain > 1 + FINEST else "nothing"
        text += f"; over it row {best.rank} gains {over}"
    yield text


def _two_level_name(reply: RankingReply | SweepReply) -> str:
    return f"{nccl_name(reply.system)} has its own {reply.request.value} of two levels"


def _two_level_need(reply: RankingReply | SweepReply) -> str:
    assert reply.system.nccl
    return hierarchical_need(reply.request, parse_version(reply.system.nccl.version))


def _two_level_sizes_lines(reply: SweepReply) -> Iterator[str]:
    """Yield the same for a range, at its ends."""
    first, last = reply.stretches[0], reply.stretches[-1]
    ends = ((first.first, first.from_bytes), (last.last, last.until_bytes))
    if not reply.system.nccl or not all(HIERARCHICAL in end.defaults for end, _ in ends):
        return
    times = " and ".join(
        f"about {format_duration(end.defaults[HIERARCHICAL])} at {format_bytes(size)}, where the "
        f"default takes {format_duration(end.baseline_seconds)}"
        for end, size in ends
    )
    yield f"{_two_level_name(reply)}: {times}; it needs {_two_level_need(reply)}"


def _later_default_text(plain: PlacedAnswer, where: str = "") -> str:
    assert plain.later_default
    then, now = (
        format_duration(plain.later_default.seconds),
        format_duration(plain.baseline_seconds),
    )
    return (
        f"The default is priced for NCCL before {NVLS_OF_TWO}, which has no NVLS where 2 GPUs of a "
        "node are in one communicator (--nccl states another version). "
        f"In later NCCL it is {plain.later_default.name}: {then}{where}, not {now}"
    )


def _is_later_slower(plain: PlacedAnswer) -> bool:
    later = plain.later_default
    return later is not None and later.seconds > (1 + FINEST) * plain.baseline_seconds


def _later_sizes_lines(reply: SweepReply) -> Iterator[str]:
    """Yield the same for a range, at the first size where it differs.

    A line that keeps what is priced names no protocol, as that changes with the size.
    """
    ends = [
        (end, size)
        for stretch in reply.stretches
        for end, size in ((stretch.first, stretch.from_bytes), (stretch.last, stretch.until_bytes))
        if end.later_default
    ]
    for end, size in ends[:1]:
        text, request = _later_default_text(end, f" at {format_bytes(size)}"), reply.request.value
        same = len({size.default_name for size in reply.sizes}) == 1
        if same and all(_is_later_slower(end) for end, _ in ends):
            text += (
                f". {end.default.algorithm_setting(request)} keeps what is priced: "
                f"{explain_scope(request)}"
            )
        yield text


def _placement_lines(reply: RankingReply, answer: PlacedAnswer) -> Iterator[str]:
    """Yield the placement among several, with a note if only this collective prefers it."""
    if has_multiple_placements(reply.answers):
        left_over = any(size > 1 and name not in reply.reduce for name, size in answer.axes.items())
        alone = " for this collective alone" if left_over else ""
        yield f"placement {answer.placement}{alone}{_placement_text(reply.system.levels, answer)}"


def _placement_text(levels: Levels, answer: PlacedAnswer | PlacementOption) -> str:
    with suppress(InputError):  # names that no machine has, in an answer that was sent
        return f": {describe_placement(placement_of(levels, answer.axes, answer.placement))}"
    return ""


def _orders(
    levels: Sequence[LevelInFull], axes: Mapping[str, int], matrix: Matrix
) -> Sequence[tuple[str, str]]:
    """Return the settings of frameworks whose default order it is not."""
    with suppress(InputError):  # the same
        found = summarize_conventions(find_conventions(levels, axes, matrix))
        return [line for line in found if line[1] != ALREADY_DEFAULT]
    return ()


def to_do_of_answer(answer: PlacedAnswer, row: int, name: str, request: str, speedup: str) -> ToDo:
    """Return an answer's action: an environment variable, or a file and the lines that use it."""
    before = "" if name.startswith("row ") else f"{name}, {speedup}. "
    line = answer.advice.text
    if answer.advice.by is AdviceKind.ENVIRONMENT:
        return ToDo(row, name, f"{before}Set for all ranks", line, line, speedup)
    command, *otherwise = line.split("; ")
    file = parse_emit_command(command)
    call = f"{request.replace('-', '_')}(...)"
    if file.target == "torch":
        call = _HOOKS.get(request, call)
    more = f" ({'; '.join(otherwise)})" if otherwise else ""
    lines = f"import {file.module} as fast\nfast.{call}"
    put = f"{before}Put {file.name} next to your script, and add this to it{more}"
    takes = "; ".join([file.name, *otherwise])
    return ToDo(row, name, put, lines, takes, speedup, file=file, emits=command)


def _sweep_verdict(reply: SweepReply, found: Sequence[RankingRow]) -> Verdict:
    """Return the verdict of a range of sizes: the stretches that gain, and what to do for each."""
    to_do, most = list[ToDo](), 1.0
    for at, stretch in enumerate(reply.stretches):
        ends = (stretch.first, stretch.last)
        gain = [
            e for e in ends if e.against_default is DefaultComparison.FASTER and is_available(e)
        ]
        if gain and is_wide(reply, at):
            most = max(most, *(end.baseline_seconds / end.runtime_seconds for end in gain))
            sizes, times = " to ".join(found[at].title), " to ".join(found[at].speedup)
            to_do.append(to_do_of_answer(gain[0], at, sizes, reply.request.value, times))
    later = [*_later_sizes_lines(reply), *_two_level_sizes_lines(reply)]
    follow, runs = (
        [*_narrow_lines(reply), *price_basis_lines(reply.system)],
        find_deciding_runs(reply),
    )
    if not to_do and runs:
        return _measuring_verdict(runs, follow, first=later, of="sizes")
    if not to_do:
        why = "at no size is a program that a runtime offers faster beyond prediction error"
        return Verdict(KEEP, [why, *later, *follow])
    lines = later
    if len(to_do) < len(reply.stretches):
        lines.append("at other sizes keep the default")
    if len(reply.stretches) > 1 and not all(choice.file for choice in to_do):
        line = next(choice.lines for choice in to_do if not choice.file)
        scope = explain_scope(reply.request.value, line=line)
        lines.append(f"{scope}, so at all sizes; by size: {BY_SIZE}")
    every = sorted([*to_do, *map(to_do_of_run, runs)], key=lambda choice: choice.row)
    headline = f"Up to {most:.2f}x: do this"
    return Verdict(headline, [*lines, *follow], (), every, decision_rule(runs), "sizes")


def _narrow_lines(reply: SweepReply) -> Iterator[str]:
    """Yield the number of stretches that may gain and are too narrow for a rule."""
    may_gain = (
        stretch.trial or stretch.first.against_default is DefaultComparison.FASTER
        for stretch in reply.stretches
    )
    found = sum(bool(may) and not is_wide(reply, row) for row, may in enumerate(may_gain))
    if found:
        yield (
            f"{pluralize(found, 'row')} may gain, with too few sizes for a rule; if you always send"
            " such a size, ask about it alone"
        )


def _uneven_verdict(reply: UnevenReply, row: RankingRow) -> Verdict:
    """Return the verdict of a machine that lacks devices; the default is a single all-reduce."""
    first, follow = reply.answers[0], price_basis(reply.system.prices)
    default = f"a single all-reduce takes {format_duration(reply.flat_seconds)}"
    if not groups_gain(reply):
        return Verdict(
            KEEP, [f"{default}; no proved program is faster beyond prediction error", follow]
        )
    run = f"collsynth emit --from ANSWER.json --rank {first.rank} --target json"
    what = "Use its groups of ranks, in JSON"
    name, takes = f"row {first.rank}", "its groups of ranks"
    to_do = ToDo(0, name, what, "", takes, row.speedup[0], emits=run)
    gain = f"{format_duration(first.seconds)}, where {default}"
    return Verdict(f"{row.speedup[0]}: do this", [gain, follow], (), [to_do])


def side_effect_lines(entry: PlannedEntry) -> Iterator[str]:
    """Yield what the variables of an entry cost or save the others, and whether it is worth it."""
    if not entry.side_effects:
        return
    parts = [
        f"{effect.entry} {format_duration(effect.seconds)} -> "
        f"{'refused' if effect.seconds_with is None else format_duration(effect.seconds_with)}"
        for effect in entry.side_effects
    ]
    gain = format_duration(entry.default_exposed_seconds - entry.runtime_exposed_seconds)
    cost = entry.side_effect_seconds
    if isinf(cost):
        net = "NCCL refuses calls that it has no such algorithm for"
    else:
        changed = f"{'lose' if cost >= 0 else 'gain'} {format_duration(abs(cost))}"
        net = f"it gains {gain} a step, the others {changed}"
    kept = "" if entry.is_worth_setting else ": keep the default"
    yield f"the variables of {entry.name} change calls of others ({', '.join(parts)}): {net}{kept}"
    yield f"to change no other call, {FOR_ONE_CALL}"


def _job_verdict(reply: PlanReply, found: Sequence[RankingRow]) -> Verdict:
    """Return the verdict of a job: its entries' gains over the defaults on the best placement."""
    best, levels = reply.ranking[0], reply.system.levels
    default_seconds, seconds = reply.default_exposed_seconds, reply.runtime_exposed_seconds
    to_do = [
        to_do_of_answer(entry.answer, at, entry.name, entry.request.value, found[at].speedup[0])
        for at, entry in enumerate(reply.entries)
        if entry.answer.against_default is DefaultComparison.FASTER
        and is_available(entry.answer)
        and entry.is_worth_setting
    ]
    waits = f"exposed communication {format_duration(seconds)} a step"
    effects = [line for entry in reply.entries for line in side_effect_lines(entry)]
    where = f"placement {best.placement}{_placement_text(levels, best)}"
    more, orders = (
        [*effects, where, *price_basis_lines(reply.system)],
        _orders(levels, best.axes, best.placement),
    )
    longer = default_seconds / seconds if seconds else 1.0
    gains = job_gains(reply)
    if not gains and (runs := find_deciding_runs(reply)):
        return _measuring_verdict(runs, [waits, *more], orders, of="entry")
    if not gains:
        return Verdict(
            KEEP, [f"{waits}; no program reduces it beyond prediction error", *more], orders
        )
    waits += f", with the default {format_duration(default_seconds)}"
    return Verdict(f"{longer:.2f}x: do this", [waits, *more], orders, to_do, of="entry")
