"""Plans for all combinations of several values of a question's keys: what-if as one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from hierarchies import InputError
from synth.ask.answers.parts import Json
from synth.ask.answers.training.swept import PlanSweepReply, SweptPlan
from synth.ask.questions.named_texts import NamedText
from synth.ask.questions.question import parse_question
from synth.ask.reply import Outcome, Reply, reply_of_search
from synth.collective.ranking.request import QuietWatcher, Watcher

if TYPE_CHECKING:
    from synth.ask.planning import PlanQuestion

NUMBERS = ("batch", "sequence")
SWEPT_KEYS = (
    "system",
    "model",
    *NUMBERS,
    "dtype",
    "precision",
    "optimizer",
    "device",
    "pin",
    "nccl",
)
"""The keys of ``plan`` that can be swept."""

APART_FIRST = (
    *("model", "sequence", "dtype", "precision", "optimizer", "pin"),
    *("device", "nccl", "system", "batch"),
)
"""The keys that can be swept, those first whose values share least of the work on stages."""

MOST_COMBINATIONS = 1000
LEAST_IN_PIECE = 4
"""The fewest combinations of a piece that is sent to another process, unless there are fewer."""

SweptValues = Mapping[str, list[str | NamedText]]


def check_sweep(sweep: SweptValues) -> None:
    """Raises InputError for an unknown key, for a key without values, and for too many of them."""
    for key, values in sweep.items():
        if key not in SWEPT_KEYS:
            hint = f"one of {', '.join(SWEPT_KEYS)}"
            raise InputError(f"no key {key!r} to sweep", hint=hint)
        if not values:
            hint = f"as in {key}=A,B"
            raise InputError(f"a sweep over no value of {key}", hint=hint)
        spelled = [_spell(value) for value in values]
        twice = next((value for value in spelled if spelled.count(value) > 1), None)
        if twice is not None:
            raise InputError(f"{key}={twice} is given twice", hint="give it once")
        for value in spelled if key in NUMBERS else ():
            if not value.isdecimal() or not 0 < int(value) < 2**31:
                hint = "a whole number above 0"
                raise InputError(f"{key}={value} cannot be read", hint=hint)
    if (count := _count(sweep)) > MOST_COMBINATIONS:
        hint = f"at most {MOST_COMBINATIONS} combinations"
        raise InputError(f"a sweep over {count} combinations", hint=hint)


def sweep_plans(
    question: PlanQuestion, plan: Callable[[PlanQuestion, Watcher], Reply], watcher: Watcher
) -> Reply:
    """Answers the question with every combination of the swept values.

    A combination that cannot be planned has a row with the reason.
    """
    sweep, quiet = question.sweep, QuietWatcher(watcher)
    combinations = [dict(zip(sweep, values, strict=True)) for values in product(*sweep.values())]
    rows: list[SweptPlan] = []
    for values in combinations:
        if rows and not watcher.go_on():
            break
        rows.append(_plan_combination(question, values, plan, quiet))
        watcher.judged(len(rows), len(combinations))
    return _reply(sweep, rows)


def _reply(sweep: SweptValues, rows: Sequence[SweptPlan]) -> Reply:
    answer = PlanSweepReply.like(
        swept={key: [*map(_spell, values)] for key, values in sweep.items()},
        rows=[*rows],
        complete=len(rows) == _count(sweep) and all(row.complete for row in rows),
    )
    return reply_of_search(answer, Outcome.OK if any(row.plan for row in rows) else Outcome.NO)


def divide_sweep(sweep: SweptValues, pieces: int) -> list[SweptValues]:
    """Divides a sweep into at most so many sweeps, each of ``LEAST_IN_PIECE`` combinations or more.

    The largest is halved as long as that is possible: first between values that share no work, so
    that questions about one traced model and its layers stay together.
    """
    found = [sweep]
    while len(found) < pieces:
        largest = max(found, key=_count)
        halves = (_halve(largest, key) for key in APART_FIRST if key in largest)
        fit = next((pair for pair in halves if min(map(_count, pair)) >= LEAST_IN_PIECE), None)
        if fit is None:
            break
        at = found.index(largest)
        found[at : at + 1] = fit
    return found


def _halve(sweep: SweptValues, key: str) -> tuple[SweptValues, SweptValues]:
    """Returns the sweeps over the first and the last values of a key."""
    middle = len(sweep[key]) // 2
    return {**sweep, key: sweep[key][:middle]}, {**sweep, key: sweep[key][middle:]}


def join_sweeps(sweep: SweptValues, replies: Iterable[Reply]) -> Reply:
    """Returns the answer of a sweep from those of its pieces, as if one process had worked on it.

    Pieces may be missing, or stopped early: then so are their rows.
    """
    found = [SweptPlan.model_validate(row) for reply in replies for row in reply.body["rows"]]
    of_values = {tuple(row.values.values()): row for row in found}
    order = (tuple(map(_spell, values)) for values in product(*sweep.values()))
    return _reply(sweep, [of_values[values] for values in order if values in of_values])


def _count(sweep: SweptValues) -> int:
    """Returns the number of combinations."""
    return prod(map(len, sweep.values()))


def _plan_combination(
    question: PlanQuestion,
    values: Mapping[str, str | NamedText],
    plan: Callable[[PlanQuestion, Watcher], Reply],
    watcher: Watcher,
) -> SweptPlan:
    try:
        own = _question_with(question, values)
        own.check_early()
        answer = plan(own, watcher).body
    except InputError as error:
        return _row(values, str(error))
    if answer["advised"] is None:
        problem = "nothing fits" if answer["complete"] else "nothing found yet"
        problem = "no framework runs a plan that fits" if answer["plans"] else problem
        return _row(values, problem, answer)
    return _row(values, "", answer, answer["plans"][answer["advised"]])


def _question_with(question: PlanQuestion, values: Mapping[str, str | NamedText]) -> PlanQuestion:
    """Returns the question with other values of its keys. Raises InputError for bad ones."""
    given = question.model_dump(exclude_unset=True, exclude={"sweep", *values})
    for key, value in values.items():
        text = value.model_dump() if isinstance(value, NamedText) else value
        given[key] = int(_spell(value)) if key in NUMBERS else text
    return parse_question(type(question), given)


def _row(
    values: Mapping[str, str | NamedText],
    problem: str,
    answer: Json | None = None,
    plan: Json | None = None,
) -> SweptPlan:
    """Returns a row from an answer of ``plan`` and its advised plan, as JSON."""
    keys = ("plan", "axes", "placement", "seconds", "tokens_per_second", "utilisation", "gap")
    of_plan = {key: plan[key] if plan else None for key in keys}
    of_answer = {key: answer[key] if answer else None for key in ("system", "devices", "samples")}
    return SweptPlan(
        values={key: _spell(value) for key, value in values.items()},
        problem=problem,
        bytes=plan["memory"]["bytes"] if plan else None,
        complete=answer["complete"] if answer else True,
        **of_answer,
        **of_plan,
    )


def _spell(value: str | NamedText) -> str:
    return value.name if isinstance(value, NamedText) else value
