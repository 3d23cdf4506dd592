"""The verbs about one program: is it right, whom does it join, what does it cost."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from grammar import Goal, Program, canonical, parse
from hierarchies import Digit, InputError, Reduction, Tree
from synth.ask.answers.machine_parts import LevelInBrief, MachineException
from synth.ask.answers.parts import (
    SCHEMA_VERSION,
    StepPrice,
    default_keys,
    interval_of,
    judged_keys,
)
from synth.ask.answers.programs import (
    CheckReply,
    LowerReply,
    Refused,
    Replayed,
    TimeReply,
    TreePart,
)
from synth.ask.answers.ranked import axes_of, matrix_of
from synth.ask.export import derived_from_text
from synth.ask.questions import notations
from synth.ask.questions.fields import Flag, Limited
from synth.ask.questions.flags import (
    Algorithm,
    Bytes,
    Numbers,
    PerhapsMachine,
    ProgramText,
    Requested,
    Segments,
)
from synth.ask.questions.named_texts import system_of
from synth.ask.questions.question import (
    FaultyQuestion,
    PerhapsPlacedQuestion,
    PlacedQuestion,
    PricedQuestion,
    segment_counts,
)
from synth.ask.reply import Outcome, Reply, reply
from synth.collective.algorithms.algorithms import Choice
from synth.collective.emit.document.writing import document
from synth.collective.price.bound import bound
from synth.collective.price.defaults import defaults
from synth.collective.price.intervals import interval
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import limiting, total_seconds
from synth.collective.ranking.answers import in_segments, priced
from synth.collective.ranking.request import Watcher
from synth.collective.semantics.lowering import lower
from synth.collective.semantics.rules import Derivation, Refusal, derive, derived_on
from synth.collective.semantics.states import holdings
from synth.collective.verify.replay import Failure, compare, multiplicities, wanted
from synth.collective.verify.symbolic import Proved, Refuted, prove

MOST_REPLAYED = 2**26


class CheckQuestion(PerhapsPlacedQuestion):
    """Derive and prove a program, or say which step fails, with a counterexample."""

    program: ProgramText
    system: Annotated[PerhapsMachine, Flag("Where it runs", ", unless --tree")] = None
    tree: Annotated[
        Numbers | None,
        Limited.TREE,
        Flag(
            "Sizes of the tree's digits",
            ", as in 2,8",
            notation=notations.numbers("is not a tree", "sizes"),
        ),
    ] = None
    request: Requested = Goal.ALL_REDUCE
    replay: Annotated[bool, Flag("Execute it on arrays too")] = False

    def reduction(self) -> Reduction | Tree:
        """The tree, or the reduction whose tree the program is over.

        Raises InputError if neither or both are given.
        """
        placed = [part is not None for part in (self.system, self.axes, self.reduce)]
        clash = any(placed) or self.placement is not None
        if clash if self.tree is not None else not all(placed):
            raise InputError(
                "give the tree the program is over, or where it runs",
                hint="either --tree 2,8 or a SYSTEM with --axes and --reduce",
            )
        if self.tree is not None:
            return Tree.of(*self.tree)
        return self.place(self.program)[1]


class LowerQuestion(PlacedQuestion):
    """Print the schedule: for each step the groups of real devices, and the bytes."""

    bytes: Bytes = 2**30


class TimeQuestion(LowerQuestion, FaultyQuestion, PricedQuestion):
    """Price a program step by step, with the reason of each price."""

    algorithm: Algorithm = Choice.AUTO
    segments: Segments = "auto"


def check(question: CheckQuestion, watcher: Watcher) -> Reply:
    """Whether a program is an all-reduce: derivation and proof, or what goes wrong and where."""
    where = question.reduction()
    tree = where if isinstance(where, Tree) else where.tree
    given = parse(question.program)
    program = canonical(given, tree)
    verdict = prove(program, tree, question.request)
    states: list[list[str]] = []
    refused, replay = None, None
    match derive(program, tree, question.request):
        case Refusal() as refusal:
            refused = Refused.like(refusal)
            if question.replay:
                sizes = verdict.sizes if isinstance(verdict, Refuted) else tree.sizes
                replay = _counted(program, tree, sizes, question.request)
        case Derivation() as derivation:
            states = [[str(h) for h in held] for held in holdings(derivation)]
            if question.replay:
                replay = _replayed(derivation, where)
    found = CheckReply.like(
        question,
        given=str(given),
        program=str(program),
        tree=TreePart.like(tree),
        valid=refused is None and isinstance(verdict, Proved),
        states=states,
        refused=refused,
        **judged_keys(verdict),
        replay=replay,
    )
    wrong = refused is not None or isinstance(verdict, Refuted)
    if wrong or (found.replay is not None and not found.replay.equal):
        return reply(found, Outcome.NO)
    return reply(found, Outcome.OK if found.right else Outcome.UNKNOWN)


def lowered(question: LowerQuestion, watcher: Watcher) -> Reply:
    """The schedule: per step the groups of real devices in order, and the bytes."""
    system = system_of(question.system)
    reduction = question.reduction(system)
    schedule = lower(
        derived_from_text(question.program, reduction, question.request), reduction, question.bytes
    )
    found = document(schedule, system.name)
    return reply(LowerReply(schema_version=SCHEMA_VERSION, **found))


def time(question: TimeQuestion, watcher: Watcher) -> Reply:
    """What each phase of a program costs and why."""
    system = question.priced(question.changed(system_of(question.system)))
    reduction = question.reduction(system)
    derivation = derived_from_text(question.program, reduction, question.request)
    simulator = Simulator(system, question.algorithm)
    counts = segment_counts(question.segments)
    segments, prices, taken = in_segments(simulator, derivation, reduction, question.bytes, counts)
    least = bound(system, reduction, question.bytes, question.request)
    plain = defaults(simulator, reduction, question.bytes, question.request)
    barriers = priced(simulator, derivation, reduction, question.bytes)
    found = TimeReply.like(
        question,
        system=system.name,
        levels=LevelInBrief.all_of(system.hierarchy),
        axes=axes_of(reduction.placement.axes),
        placement=matrix_of(reduction.placement),
        prices=system.prices,
        exceptions=MachineException.all_of(system),
        program=str(derivation.program),
        segments=segments,
        steps=[StepPrice.of(price) for price in prices],
        seconds=taken,
        barrier_seconds=total_seconds(barriers),
        baseline_seconds=total_seconds(plain.baseline),
        **default_keys(plain, interval(system, plain.baseline)),
        interval_seconds=interval_of(interval(system, prices * segments, taken)),
        baseline_interval_seconds=interval_of(interval(system, plain.baseline)),
        bound_seconds=least.seconds,
        bound_by=least.level,
        limited_by=limiting(prices, segments),
    )
    return reply(found)


def _replayed(derivation: Derivation, where: Reduction | Tree) -> Replayed:
    """Execute a program on all devices, on a payload that does not divide evenly into pieces."""
    tree = derivation.tree
    if isinstance(where, Tree):
        where = Reduction.plain(*tree.sizes)
        derivation = derived_on(derivation, where.tree)
    schedule = lower(derivation, where, payload_bytes=1)
    elements = schedule.pieces + 1
    if schedule.devices * elements > MOST_REPLAYED:
        raise InputError(
            f"a replay of {elements} elements on {schedule.devices} devices does not fit in memory",
            where="--replay",
            hint=f"at most {MOST_REPLAYED} in all; the proof holds for every size",
        )
    failure = compare(schedule, elements)
    return Replayed.of(schedule.devices, elements, failure.reason if failure else None)


def _counted(program: Program, tree: Tree, sizes: tuple[int, ...], goal: Goal) -> Replayed:
    """Execute an unverified program at a counterexample's sizes, and count contributions."""
    small = Tree(tuple(Digit(name, size) for name, size in zip(tree.names, sizes, strict=True)))
    if small.devices**3 > MOST_REPLAYED:
        raise InputError(
            f"{small.devices} devices are too many to count contributions on",
            where="--replay",
            hint=f"their cube may be at most {MOST_REPLAYED}",
        )
    counts = multiplicities(program, small, goal)
    reason = None
    if isinstance(counts, Failure):
        reason = f"step {(counts.phase or 0) + 1}: {counts.reason}"
    elif (wrong := np.argwhere(counts != wanted(counts, goal))).size:
        device, chunk, contributor = wrong[0].tolist()
        times = int(counts[device, chunk, contributor])
        reason = f"device {device} has device {contributor}'s chunk {chunk} {times} times"
    return Replayed.of(small.devices, small.devices, reason)
