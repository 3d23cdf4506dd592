"""The verbs about one program: its correctness, its groups, and its price."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from grammar import Goal, Program, canonicalize, instructions, parse
from hierarchies import Digit, InputError, MachineException, Reduction, System, Tree
from synth.ask.answers.machine_parts import LevelInBrief, NcclPart, PricesName
from synth.ask.answers.parts import (
    DEFAULTS,
    SCHEMA_VERSION,
    VERDICT,
    AnswerPart,
    Axes,
    DefaultsPart,
    GoalName,
    Interval,
    LimitedBy,
    Matrix,
    OrderedPart,
    Positive,
    PredictedSeconds,
    ReplyModel,
    Seconds,
    StepPricePart,
    VerdictPart,
    Version,
    Whole,
    default_keys,
    verdict_keys,
)
from synth.ask.export import check_derivation, derive_text
from synth.ask.questions import notations
from synth.ask.questions.fields import CostLimit, Flag
from synth.ask.questions.flags import (
    Algorithm,
    Bytes,
    Numbers,
    OptionalMachine,
    ProgramText,
    RequestedGoal,
    Segments,
)
from synth.ask.questions.named_texts import system_of
from synth.ask.questions.question import (
    FaultyQuestion,
    PlacedQuestion,
    PricedQuestion,
    ProgramQuestion,
    segment_counts,
)
from synth.ask.reply import Outcome, Reply, reply
from synth.collective.algorithms.algorithms import Choice
from synth.collective.emit.document import schema
from synth.collective.emit.document.writing import document
from synth.collective.price.bound import bound
from synth.collective.price.defaults import defaults
from synth.collective.price.intervals import interval_of_program
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import limiting_resource, total_seconds
from synth.collective.ranking.answers import choose_segments, price_phases
from synth.collective.ranking.request import Watcher
from synth.collective.semantics.lowering import lower
from synth.collective.semantics.rules import DemandKind, Derivation, Refusal, derive, derive_on
from synth.collective.semantics.states import holdings
from synth.collective.semantics.truth_tables import check_depth
from synth.collective.verify.replay import Failure, compare, expected_multiplicities, multiplicities
from synth.collective.verify.symbolic import Proved, Refuted, prove

MOST_REPLAYED = 2**26


class CheckQuestion(ProgramQuestion):
    """Derive and prove a program, or say which step fails, with a counterexample."""

    program: ProgramText
    system: Annotated[OptionalMachine, Flag("System to run on", ", unless --tree")] = None
    tree: Annotated[
        Numbers | None,
        CostLimit.TREE,
        Flag(
            "Sizes of the synthesis tree's digits",
            ", as in 2,8",
            notation=notations.number_notation("is not a tree", "sizes"),
        ),
    ] = None
    request: RequestedGoal = Goal.ALL_REDUCE
    replay: Annotated[bool, Flag("Also execute it on arrays")] = False

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

    def check_early(self) -> None:
        found = self.reduction()
        tree = found if isinstance(found, Tree) else found.tree
        check_depth(len(tree.digits))
        instructions(canonicalize(parse(self.program), tree), tree, self.request)


class LowerQuestion(PlacedQuestion):
    """Print the schedule: for each step the groups of real devices, and the bytes."""

    bytes: Bytes = 2**30

    def machine(self) -> System:
        """The system. Raises InputError for one that cannot be."""
        return system_of(self.system)

    def check_early(self) -> None:
        check_derivation(self.program, self.reduction(self.machine()), self.request)


class TimeQuestion(LowerQuestion, FaultyQuestion, PricedQuestion):
    """Price a program step by step, with the reason of each price."""

    algorithm: Algorithm = Choice.AUTO
    segments: Segments = "auto"

    def machine(self) -> System:
        return self.priced(self.changed(system_of(self.system)))


class TreePart(AnswerPart):
    """The tree a program is over."""

    names: list[str] = Field(description="Of its digits, outermost first.")
    sizes: list[Positive] = Field(description="Names of its digits.")


class RefusalPart(AnswerPart):
    """Where the rules refuse a program."""

    step: Whole | None = Field(description="Counted from 0; null if the goal is missed.")
    kind: Annotated[DemandKind, Field(strict=False)] = Field(description="Kind of mistake.")
    reason: str = Field(min_length=1, description="In a sentence.")


class ReplayPart(AnswerPart):
    """What was seen when a program was carried out on arrays."""

    devices: Positive = Field(description="Number of them.")
    elements: Positive = Field(description="Number of elements on each device.")
    equal: bool = Field(description="Whether the result is right.")
    reason: str | None = Field(description="What went wrong; else null.")


class CheckReply(ReplyModel, VerdictPart):
    """Whether a program does what is requested, or what goes wrong and where."""

    last = (*VERDICT, "replay")

    request: GoalName = Field(description="Request of the program.")
    given: str = Field(description="The given program.")
    program: str = Field(description="Its canonical spelling.")
    tree: TreePart = Field(description="The tree it is over.")
    valid: bool = Field(description="Derived by the rules, and proved by z3.")
    states: list[list[str]] = Field(description="States before and after each step.")
    refused: RefusalPart | None = Field(description="Reason of the rules for a refusal; else null.")
    replay: ReplayPart | None = Field(description="Null unless requested.")

    @property
    def right(self) -> bool:
        """Whether nothing speaks against the program: a proof, and the replay if there was one."""
        return self.valid and (self.replay is None or self.replay.equal)


class LowerReply(schema.StripePart, schema.Head, OrderedPart):
    """The schedule of a program for the real devices, as a document."""

    last = (
        *("system", "levels", "axes", "placement", "reduce", "request", "collapse"),
        *("program", "devices", "payload_bytes", "padded_bytes", "pieces", "segments"),
        *("reduction_groups", "steps"),
    )

    schema_version: Version  # type: ignore[assignment]  # never left out
    # A literal takes True, too, as it equals 1.
    version: int = Field(  # type: ignore[assignment]
        ge=1, le=1, description="The version of the document."
    )
    system: str = Field(description="The name of the machine.")


class TimeReply(ReplyModel, DefaultsPart):
    """What each step of a program costs and why."""

    last = (
        *DEFAULTS,
        *("interval_seconds", "baseline_interval_seconds"),
        *("bound_seconds", "bound_by", "limited_by"),
    )

    system: str = Field(description="The name of the machine.")
    levels: list[LevelInBrief] = Field(min_length=1, description="Levels of the machine.")
    axes: Axes = Field(description="Sizes by name; their order is that of the rows.")
    placement: Matrix = Field(description="One row an axis, one column a level.")
    reduce: list[str] = Field(min_length=1, description="The axes that the program is over.")
    prices: PricesName = Field(description="Basis of prices: see --prices.")
    nccl: NcclPart | None = Field(description="Version of NCCL or RCCL; null for other runtimes.")
    exceptions: list[MachineException] = Field(description="Units that are missing or slower.")
    request: GoalName = Field(description="Request of the program.")
    program: str = Field(description="Its canonical spelling.")
    bytes: Positive = Field(description="The largest buffer of a device.")
    segments: Positive = Field(description="Number of pieces the payload is cut into.")
    steps: list[StepPricePart] = Field(description="Steps of one segment.")
    seconds: PredictedSeconds
    barrier_seconds: Seconds = Field(description="In one segment.")
    baseline_seconds: Seconds = Field(description="Seconds of the default on the same placement.")
    interval_seconds: Interval | None = Field(
        description="Interval of a calibrated system, or null."
    )
    baseline_interval_seconds: Interval | None = Field(
        description="Interval of the default, or null."
    )
    bound_seconds: Seconds = Field(description="Lower bound over all schedules on this placement.")
    bound_by: str = Field(description="The level whose links impose the bound.")
    limited_by: LimitedBy


def check(question: CheckQuestion, watcher: Watcher) -> Reply:
    """Whether a program is an all-reduce: derivation and proof, or what goes wrong and where."""
    where = question.reduction()
    tree = where if isinstance(where, Tree) else where.tree
    given = parse(question.program)
    program = canonicalize(given, tree)
    verdict = prove(program, tree, question.request)
    states: list[list[str]] = []
    refused: Refusal | None = None
    replay: ReplayPart | None = None
    match derive(program, tree, question.request):
        case Refusal() as refusal:
            refused = refusal
            if question.replay:
                sizes = verdict.sizes if isinstance(verdict, Refuted) else tree.sizes
                replay = _count_contributions(program, tree, sizes, question.request)
        case Derivation() as derivation:
            states = [[str(h) for h in held] for held in holdings(derivation)]
            if question.replay:
                replay = _replay(derivation, where)
    found = CheckReply.like(
        question,
        given=str(given),
        program=str(program),
        tree=tree,
        valid=refused is None and isinstance(verdict, Proved),
        states=states,
        refused=refused,
        **verdict_keys(verdict),
        replay=replay,
    )
    wrong = refused is not None or isinstance(verdict, Refuted)
    if wrong or (found.replay is not None and not found.replay.equal):
        return reply(found, Outcome.NO)
    return reply(found, Outcome.OK if found.right else Outcome.UNKNOWN)


def lower_program(question: LowerQuestion, watcher: Watcher) -> Reply:
    """The schedule: per step the groups of real devices in order, and the bytes."""
    system = question.machine()
    reduction = question.reduction(system)
    schedule = lower(
        derive_text(question.program, reduction, question.request), reduction, question.bytes
    )
    found = document(schedule, system.name)
    return reply(LowerReply(schema_version=SCHEMA_VERSION, **found))


def time(question: TimeQuestion, watcher: Watcher) -> Reply:
    """What each phase of a program costs and why."""
    system = question.machine()
    reduction = question.reduction(system)
    derivation = derive_text(question.program, reduction, question.request)
    simulator = Simulator(system, question.algorithm)
    counts = segment_counts(question.segments)
    segments, prices, taken = choose_segments(
        simulator, derivation, reduction, question.bytes, counts
    )
    least = bound(system, reduction, question.bytes, question.request)
    plain = defaults(simulator, reduction, question.bytes, question.request)
    usual = interval_of_program(system, plain.baseline, least_seconds=least.seconds)
    barriers = price_phases(simulator, derivation, reduction, question.bytes)
    found = TimeReply.like(
        question,
        system.hierarchy,
        system=system.name,
        prices=system.prices,
        nccl=NcclPart.of(system),
        axes=reduction.placement.axes,
        placement=reduction.placement,
        exceptions=MachineException.all_of(system),
        program=str(derivation.program),
        segments=segments,
        steps=prices,
        seconds=taken,
        barrier_seconds=total_seconds(barriers),
        baseline_seconds=total_seconds(plain.baseline),
        **default_keys(plain, usual),
        interval_seconds=interval_of_program(system, prices * segments, taken, least.seconds),
        baseline_interval_seconds=usual,
        bound_seconds=least.seconds,
        bound_by=least.level,
        limited_by=limiting_resource(prices, segments),
    )
    return reply(found)


def _replay(derivation: Derivation, where: Reduction | Tree) -> ReplayPart:
    """Execute a program on all devices, on a payload that does not divide evenly into pieces."""
    tree = derivation.tree
    if isinstance(where, Tree):
        where = Reduction.plain(*tree.sizes)
        derivation = derive_on(derivation, where.tree)
    schedule = lower(derivation, where, payload_bytes=1)
    elements = schedule.pieces + 1
    if schedule.devices * elements > MOST_REPLAYED:
        raise InputError(
            f"a replay of {elements} elements on {schedule.devices} devices does not fit in memory",
            where="--replay",
            hint=f"at most {MOST_REPLAYED} in all; the proof holds for every size",
        )
    failure = compare(schedule, elements)
    reason = failure.reason if failure else None
    return ReplayPart(
        devices=schedule.devices, elements=elements, equal=failure is None, reason=reason
    )


def _count_contributions(
    program: Program, tree: Tree, sizes: tuple[int, ...], goal: Goal
) -> ReplayPart:
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
    elif (wrong := np.argwhere(counts != expected_multiplicities(counts, goal))).size:
        device, chunk, contributor = wrong[0].tolist()
        times = int(counts[device, chunk, contributor])
        reason = f"device {device} has device {contributor}'s chunk {chunk} {times} times"
    devices = small.devices
    return ReplayPart(devices=devices, elements=devices, equal=reason is None, reason=reason)
