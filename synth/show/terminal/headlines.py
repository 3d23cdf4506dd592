"""Headlines of answers, for lists of answers and the tops of pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from hierarchies.units import describe_total, format_bytes, format_duration
from synth.ask.answers.degraded import CostReply, UnevenReply
from synth.ask.answers.measured import (
    SHORTFALLS,
    CalibratedReply,
    DiagnosedRun,
    DoctorReply,
    FindingPart,
    TestsReply,
)
from synth.ask.answers.planning import PlanReply, SystemsRankedReply
from synth.ask.answers.ranked import BestSoFar, RankingReply, SweepReply
from synth.ask.answers.training.planned import StepPlanReply
from synth.ask.answers.training.simulated import SimulateReply
from synth.ask.answers.training.swept import PlanSweepReply
from synth.ask.table import VERBS, judge
from synth.collective.price.resolution import WORTH
from synth.show.terminal.rows import Ranking
from synth.show.terminal.style import axes_text, pluralize
from synth.show.terminal.training.swept import summarize_sweep
from synth.show.terminal.verdict import verdict

NOTHING = "Nothing was found"


def headline(verb: str, body: Any) -> str:
    """Return the headline of an answer, with a note if it is partial; empty if it has none.

    ``body`` is an answer, or the best so far. Raises ValidationError for other values.
    """
    if "schema_version" not in body:
        best = BestSoFar.model_validate(body).answers
        headline = f"{format_duration(best[0].seconds)}, not proved yet" if best else NOTHING
        return f"Partial: {headline}"
    answer = judge(verb).validate_python(body)
    headline = _headline(answer)
    cut_short = VERBS[verb].partial and not answer.complete
    return f"Partial: {headline}" if headline and cut_short else headline


def _headline(answer: object) -> str:
    match answer:
        case RankingReply() | SweepReply() | UnevenReply() | PlanReply() as ranking:
            decision = verdict(ranking)
            return decision.headline if decision else NOTHING
        case StepPlanReply() as plans if plans.plans:
            best = plans.best
            return f"{axes_text(best.axes)}: {format_duration(best.seconds)} a step"
        case PlanSweepReply() as swept:
            return summarize_sweep(swept).headline
        case StepPlanReply() as none:
            return no_plan_headline(none)
        case SimulateReply() as simulated:
            return f"{format_duration(simulated.seconds)} a step"
        case other:
            return headline_of(other)


def no_plan_headline(answer: StepPlanReply) -> str:
    """Return the headline of a search without a plan; "none fits" appears only if proved."""
    if answer.proved == "infeasible":
        return "Nothing fits in memory"
    return f"No plan was found that fits; {pluralize(answer.considered, 'plan')} examined"


def headline_of(answer: object) -> str:
    """Return the headline of an answer that is neither a ranking nor about a step."""
    match answer:
        case SystemsRankedReply():
            return _systems(answer)
        case CostReply():
            healthy = answer.healthy.seconds
            return f"{answer.best.seconds / healthy:.2f} times as long" if healthy else "As long"
        case DoctorReply():
            return _runs(answer)
        case CalibratedReply():
            fitted = (
                f"{pluralize(answer.rows, 'measured row')} "
                f"fitted{_fit_error_text(answer)}{_ambiguity_text(answer)}"
            )
            fitted = (
                f"{fitted}, of {machine}"
                if (machine := shortfall_headline(answer.short))
                else fitted
            )
            against = contradiction(answer.contradicted)
            return f"{against}; {fitted} nevertheless" if against else fitted
        case TestsReply():
            seconds = describe_total(test.seconds for test in answer.experiments)
            return f"{pluralize(len(answer.experiments), 'test')}, {seconds}"
    return ""


def _runs(answer: DoctorReply) -> str:
    """Return the number of runs that fall short, and the levels that cause it."""
    if against := contradiction(answer.findings):
        return against
    alone = [run for run in answer.runs if run.past is None]
    compared = _compared_runs(answer)
    return "; ".join(filter(None, (compared, _runs_by_prediction(answer, alone))))


def _compared_runs(answer: DoctorReply) -> str:
    """Return how runs with an earlier log compare with it, and what is slower; "" without one."""
    count = sum(run.past is not None for run in answer.runs)
    if not count:
        return ""
    runs = pluralize(count, "run")
    verdicts = [finding.kind for finding in answer.findings]
    if "slower" not in verdicts:
        faster = verdicts.count("faster")
        return f"Faster than before: {faster} of {runs}" if faster else f"As before: {runs}"
    slower = f"{verdicts.count('slower')} of {runs} slower than before"
    for kind, verb in (("level-slower", "is slower"), ("open", "is most likely slower")):
        named = dict.fromkeys(finding.level for finding in answer.findings if finding.kind == kind)
        if named:
            return f"Level {' and '.join(map(repr, named))} {verb}: {slower}"
    return f"Messages take longer: {slower}" if "latency" in verdicts else slower.capitalize()


def _runs_by_prediction(answer: DoctorReply, alone: Sequence[DiagnosedRun]) -> str:
    """Return how runs without an earlier log compare with the prediction; "" if there is none."""
    if not alone:
        return ""
    short = {
        finding.source for finding in answer.findings if finding.kind in ("short", "level-short")
    } & {run.source for run in alone}
    runs = pluralize(len(alone), "run")
    late = {finding.source for finding in answer.findings if finding.kind == "latency"} & {
        run.source for run in alone
    }
    if late - short and not short:
        return f"Small sizes fall short: {len(late)} of {runs} slower than predicted there"
    if not short:
        above = {
            finding.source for finding in answer.findings if finding.kind == "above-prediction"
        } & {run.source for run in alone}
        return f"Faster than predicted: {len(above)} of {runs}" if above else f"As expected: {runs}"
    named = dict.fromkeys(
        finding.level for finding in answer.findings if finding.kind == "level-short"
    )
    levels = f"{'Level' if len(named) == 1 else 'Levels'} {' and '.join(map(repr, named))}"
    fall = f"{levels} {'falls' if len(named) == 1 else 'fall'} short: " if named else ""
    return f"{fall}{len(short)} of {runs} below the prediction"


def contradiction(findings: Sequence[FindingPart]) -> str:
    """Return the first row that is faster than the description allows; empty if there is none."""
    found = [finding for finding in findings if finding.kind == "below-bound"]
    if not found:
        return ""
    more = f"; the same holds for {len(found) - 1} more" if len(found) > 1 else ""
    return f"The log contradicts the description: {found[0].text}{more}"


def shortfall_headline(findings: Sequence[FindingPart]) -> str:
    """Return the machine whose runs fall short, with the level that causes it, or ""."""
    if not any(finding.kind in SHORTFALLS for finding in findings):
        return ""
    slow = (finding.level for finding in findings if finding.kind == "level-short")
    slow_levels = dict.fromkeys(slow)
    if slow_levels:
        names = " and ".join(map(repr, slow_levels))
        level, fall = ("level", "falls") if len(slow_levels) == 1 else ("levels", "fall")
        return f"a machine whose {level} {names} {fall} short"
    likely = dict.fromkeys(finding.level for finding in findings if len(finding.suspects) > 1)
    by = f", most likely by level {' and '.join(map(repr, likely))}" if likely else ""
    return f"a machine that falls short{by}"


def _fit_error_text(answer: CalibratedReply) -> str:
    """Return the median error of a fit, and the largest with its size."""
    if answer.median_error is None or answer.worst is None:
        return ""
    worst = answer.worst
    off = abs(1 / worst.times - 1)
    far = f"{off:.1%}" if off < WORTH else f"{worst.times:.2g} times the price"
    return (
        f", {answer.median_error:.1%} off in the median, {far} at worst, at "
        f"{format_bytes(worst.bytes)}"
    )


def _ambiguity_text(answer: CalibratedReply) -> str:
    pairs = (" and ".join(ambiguity.levels) for ambiguity in answer.ambiguities)
    return "".join(f", but {pair} cannot be distinguished" for pair in pairs)


def _systems(several: SystemsRankedReply) -> str:
    """Return the fastest system; over ranges of sizes the one with the highest bus bandwidth."""
    if ranges := ranges_of(several):
        most = {
            name: max((rate for _, rate in bandwidths_by_size(sweep)), default=0.0)
            for name, sweep in ranges.items()
        }
        return f"{max(most, key=lambda name: most[name])} has the highest bus bandwidth"
    if not (seconds := seconds_of(several)):
        return NOTHING
    best = min(seconds, key=lambda name: seconds[name])
    return f"{best} is the fastest: {format_duration(seconds[best])}"


def ranges_of(several: SystemsRankedReply) -> Mapping[str, SweepReply]:
    """Return the answers over ranges of sizes, by the names of systems."""
    return {
        name: answer for name, answer in _name_answers(several) if isinstance(answer, SweepReply)
    }


def seconds_of(several: SystemsRankedReply) -> Mapping[str, float]:
    """Return the times of the best answers, or the exposed communication of a job, by system."""
    found = {}
    for name, answer in _name_answers(several):
        match answer:
            case PlanReply():
                found[name] = answer.ranking[0].exposed_seconds
            case RankingReply(answers=[best, *_]) | UnevenReply(answers=[best, *_]):
                found[name] = best.seconds
    return found


def bandwidths_by_size(reply: SweepReply) -> Iterator[tuple[float, float]]:
    """Bus bandwidth of the best answer at each size, in GB/s."""
    axes: Mapping[str, int] = reply.stretches[0].first.axes if reply.stretches else {}
    factor = reply.request.busbw_factor(prod(axes.get(name, 1) for name in reply.reduce))
    for size in sorted(reply.sizes, key=lambda size: size.bytes):
        if size.seconds:
            yield float(size.bytes), factor * size.bytes / size.seconds / 1e9


def _name_answers(several: SystemsRankedReply) -> Iterator[tuple[str, Ranking]]:
    """Yield the answers with the names of their systems, numbered where names repeat."""
    names: Sequence[str] = [answer.system.name for answer in several.systems]
    for at, (name, answer) in enumerate(zip(names, several.systems, strict=True)):
        again = names.count(name) > 1
        yield f"{name} ({names[: at + 1].count(name)})" if again else name, answer
