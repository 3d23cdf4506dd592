"""The verb about pipeline schedules: their simulation, and PyTorch's file."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from hierarchies import InputError, error_context, suggest_nearest
from synth.ask.answers.parts import (
    AnswerPart,
    OneFile,
    Positive,
    ReplyModel,
    Seconds,
    Whole,
)
from synth.ask.questions.fields import File, Flag
from synth.ask.questions.flags import Measure
from synth.ask.questions.question import Question
from synth.ask.reply import Reply, reply
from synth.collective.ranking.request import Watcher
from synth.step.schedules import (
    ONE_STAGE,
    SCHEDULES,
    V_SHAPED,
    CommSchedule,
    Durations,
    PipelineSchedule,
    ScheduleTimeline,
    Transfers,
    check_sizes,
    chunks_of,
    communicates,
    parse_comm_schedule,
    parse_schedule,
    time_schedule,
    to_csv,
    zero_bubble,
)
from synth.step.schedules import TransferProtocol as TransferProtocol

MOST_ACTIONS = 2**15
MOST_RANKS = 256
SEARCHED_SCHEDULE = "zero-bubble"
_NAME = re.compile(r"[a-z0-9_-]+")
Count = Annotated[int, Field(ge=1, le=MOST_ACTIONS)]
Duration = Annotated[Measure, Field(ge=0, strict=False)]


class OrderQuestion(Question):
    """Show a pipeline schedule on a clock, or check an order of your own; -o for PyTorch."""

    order: Annotated[
        str,
        Field(max_length=2**18),
        Flag(
            f"One of {', '.join(SCHEDULES)}; or an order in PyTorch's notation",
            ": 0F0,0F1,0B0,0B1 with a line for each rank, a file, or - for stdin",
            "ORDER",
            file=File.ORDER,
        ),
    ]
    stages: Annotated[
        Count | None,
        Flag("Stages of the model", ": as many as there are ranks, unless --chunks or in a V"),
    ] = None
    microbatches: Annotated[Count | None, Flag("Microbatches per step")] = None
    chunks: Annotated[Count | None, Flag("Stages per rank of an interleaved schedule")] = None
    forward: Annotated[
        Duration, Flag("Seconds of a microbatch's forward pass on all stages of a rank")
    ] = 1.0
    backward: Annotated[Duration, Flag("Seconds of its backward pass")] = 2.0
    weight: Annotated[
        Duration | None,
        Flag("Seconds of it for weight gradients, if it is split in halves", "; else half"),
    ] = None
    transfer: Annotated[Duration, Flag("Seconds of a transfer between ranks")] = 0.0
    protocol: Annotated[
        TransferProtocol | None,
        Field(strict=False),
        Flag(
            "eager: sent when ready; rendezvous: when the receiver is free, too; blocking: and "
            "the sender waits",
            "; else eager, and rendezvous for an order with its own sends and receives",
        ),
    ] = None

    def chosen(self) -> PipelineSchedule | CommSchedule:
        """The order, with its sends and receives if it has some.

        Raises InputError for a name that is none, and for what is wrong in a text.
        """
        if self.order in SCHEDULES:
            return self._made()
        if _NAME.fullmatch(self.order):
            problem = f"no schedule is called {self.order[:40]!r}"
            raise InputError(problem, where="ORDER", hint=suggest_nearest(self.order, SCHEDULES))
        if self.chunks is not None:
            raise InputError("an order says which stages a rank has", where="--chunks")
        found: PipelineSchedule | CommSchedule
        with error_context("ORDER"):
            if communicates(self.order):
                found = parse_comm_schedule(
                    self.order, self.protocol or TransferProtocol.RENDEZVOUS
                )
                order = found.order
            else:
                found = order = parse_schedule(self.order)
        for flag, given, there in (
            ("--stages", self.stages, order.stages),
            ("--microbatches", self.microbatches, order.microbatches),
        ):
            if given not in (None, there):
                raise InputError(f"{given}, and the order has {there}", where=flag)
        return found

    def check_early(self) -> None:
        """Raises InputError as ``chosen`` and ``timed``; no order is searched."""
        if self.durations and self.order == SEARCHED_SCHEDULE:
            self.check_named()
        else:
            self.timed(self.chosen())

    def check_named(self) -> None:
        """Raises InputError for numbers that make no schedule of that name."""
        for flag, given in (("--stages", self.stages), ("--microbatches", self.microbatches)):
            if given is None:
                raise InputError(f"{self.order} needs {flag}", hint=f"as in {flag} 8")
        assert self.stages
        assert self.microbatches
        chunks = self.each
        if self.chunks is not None and chunks != self.chunks:
            count = "one stage" if self.order in ONE_STAGE else "two stages"
            others = [name for name in SCHEDULES if name not in (*ONE_STAGE, *V_SHAPED)]
            raise InputError(
                f"{self.order} has {count} a rank",
                where="--chunks",
                hint=f"leave it out, or take {' or '.join(others)}",
            )
        if self.stages % chunks:
            hint = f"as many as ranks times {chunks}"
            raise InputError(f"{self.stages} in chunks of {chunks}", where="--stages", hint=hint)
        if 3 * self.stages * self.microbatches > MOST_ACTIONS:
            problem = f"{self.stages} stages and {self.microbatches} microbatches are too many"
            raise InputError(problem, hint=f"one times the other at most {MOST_ACTIONS // 3}")
        if self.order == SEARCHED_SCHEDULE and self.stages > MOST_RANKS:
            hint = f"at most {MOST_RANKS}: this order is searched"
            raise InputError(f"{self.stages} ranks", where="--stages", hint=hint)
        check_sizes(self.order, self.stages // chunks, self.microbatches, chunks)

    @property
    def each(self) -> int:
        """How many stages a rank has, of a schedule by its name."""
        return chunks_of(self.order, self.chunks or 1)

    def _made(self) -> PipelineSchedule:
        """A schedule by its name."""
        self.check_named()
        assert self.stages
        assert self.microbatches
        if self.order == SEARCHED_SCHEDULE:
            return zero_bubble(self.stages, self.microbatches, self.durations, self.transfer)
        return SCHEDULES[self.order](self.stages // self.each, self.microbatches, self.each)

    def timed(self, order: PipelineSchedule | CommSchedule) -> ScheduleTimeline:
        """The order on the clock. Raises InputError where blocking transfers stand still."""
        if isinstance(order, CommSchedule):
            return order.timeline(self.durations.on(order.order), self.transfers.seconds)
        return time_schedule(order, self.durations.on(order), self.transfers)

    @property
    def transfers(self) -> Transfers:
        """How it is sent from rank to rank."""
        usual = TransferProtocol.RENDEZVOUS if communicates(self.order) else TransferProtocol.EAGER
        return Transfers(self.transfer, self.protocol or usual)

    @property
    def durations(self) -> Durations:
        """Raises InputError for more seconds of weights than of backward passes."""
        return Durations(self.forward, self.backward, self.weight)


_Idle = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class ActionOfOrder(AnswerPart):
    """One pass of one microbatch on one stage."""

    action: str = Field(description="In PyTorch's notation: stage, F, B, I or W, microbatch.")
    begin_seconds: Seconds = Field(description="Start.")
    end_seconds: Seconds = Field(description="End.")


class RankOfOrder(AnswerPart):
    """What one rank of a pipeline does."""

    stages: list[Whole] = Field(min_length=1, description="Its stages.")
    held: Positive = Field(
        description="Maximal number of microbatches, stage by stage, whose activations it holds."
    )
    waiting: Whole = Field(
        description="Maximal number of pending weight gradients (I done, W not)."
    )
    idle_share: _Idle = Field(description="Share of the time in which it is in a bubble.")
    actions: list[ActionOfOrder] = Field(min_length=1, description="In order.")


class OrderReply(ReplyModel):
    """A pipeline schedule on a clock."""

    schedule: str | None = Field(description="Its name; null for an order given as text.")
    stages: Positive = Field(description="Stages of the model.")
    microbatches: Positive = Field(description="Microbatches per step.")
    forward_seconds: Seconds = Field(description="Seconds of a microbatch on all stages of a rank.")
    backward_seconds: Seconds = Field(description="Seconds of its backward pass, both halves.")
    weight_seconds: Seconds = Field(description="Part of it for weight gradients.")
    transfer_seconds: Seconds = Field(description="Seconds of a transfer between ranks.")
    protocol: Annotated[TransferProtocol, Field(strict=False)] = Field(
        description="When a transfer between ranks may start."
    )
    communication: bool = Field(
        description="Whether the order has sends and receives, where transfers then are."
    )
    seconds: Seconds = Field(description="Seconds until all actions end.")
    idle_share: _Idle = Field(description="Bubble as a share of all ranks' time.")
    ranks: list[RankOfOrder] = Field(
        min_length=1, description="Actions of each rank, rank 0 first."
    )
    files: OneFile = Field(description="The CSV for PyTorch's _PipelineScheduleRuntime.")


def show_schedule(question: OrderQuestion, watcher: Watcher) -> Reply:
    """An order with its times, what each rank holds, and the file that PyTorch reads."""
    chosen = question.chosen()
    found = question.timed(chosen)
    order = chosen.order if isinstance(chosen, CommSchedule) else chosen
    stages = [sorted({action.stage for action in row}) for row in order.ranks]
    actions = [
        [(str(span.action), span.begin_seconds, span.end_seconds) for span in row]
        for row in found.ranks
    ]
    answer = OrderReply.like(
        order,
        found,
        question.durations,
        question.transfers,
        schedule=question.order if question.order in SCHEDULES else None,
        weight_seconds=question.durations.weight,
        transfer_seconds=question.transfers.seconds,
        communication=isinstance(chosen, CommSchedule),
        ranks=zip(stages, order.held(), order.waiting(), found.idle_shares, actions, strict=True),
        files={"order.csv": chosen.csv() if isinstance(chosen, CommSchedule) else to_csv(chosen)},
    )
    return reply(answer)
