"""A pipeline schedule: the actions of each rank in order, checked to be free of deadlocks.

A model is divided into stages 0, 1, ... and a batch into microbatches. A rank has one stage, or
several (chunks, virtual stages). For every microbatch and each of its stages it runs a forward
pass and a backward pass. A backward pass may be split in two: the gradient of the stage's input,
for which the previous stage waits, and the gradients of its weights, for which no stage waits
(zero bubble).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import accumulate, chain, pairwise
from typing import NamedTuple, TypeVar

from hierarchies import InputError
from synth.events.longest_path import CircleError, TaskOrder, arrange_tasks

N = TypeVar("N", int, float)


class Pass(Enum):
    """A kind of pass of a microbatch on a stage, by PyTorch's letter."""

    FORWARD = "F"
    BACKWARD = "B"
    INPUT = "I"
    """The half of a backward pass that computes the gradient of the stage's input."""
    WEIGHT = "W"
    """The half that computes the gradients of the stage's weights; it follows the other half."""

    __hash__ = object.__hash__  # members are singletons, and schedules are full of lookups


class Action(NamedTuple):
    """One pass of one microbatch on one stage; ``1F0`` in PyTorch's notation."""

    stage: int
    kind: Pass
    microbatch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind.value}{self.microbatch}"


@dataclass(frozen=True)
class PipelineSchedule:
    """The actions of each rank, in order.

    Every stage is on one rank and processes each microbatch once: F, then B or I and later W. Stage
    s needs the activations of s - 1 and the gradients of s + 1. These dependencies, together with
    the order on each rank, must have no cycle. Raises InputError otherwise.
    """

    ranks: tuple[tuple[Action, ...], ...]

    @classmethod
    def known(cls, ranks: tuple[tuple[Action, ...], ...]) -> PipelineSchedule:
        """Returns a schedule without checking it; for kinds of schedules that tests check."""
        # Skips __post_init__, whose checks visit every action several times.
        schedule = object.__new__(cls)
        object.__setattr__(schedule, "ranks", ranks)
        return schedule

    def __post_init__(self) -> None:
        for rank, actions in enumerate(self.ranks):
            if not actions:
                raise InputError(f"rank {rank} has no actions", hint="give each rank a stage")
        if not self.ranks:
            raise InputError("an order without ranks", hint="a line for each rank, as in 0F0 0B0")
        self._check_once()
        self._check_complete()
        self._check_each_stage()
        try:
            _ = self.tasks
        except CircleError as circle:
            raise self._stuck([self.actions[task] for task in circle.tasks]) from None

    def __str__(self) -> str:
        return "\n".join(" ".join(map(str, actions)) for actions in self.ranks)

    @cached_property
    def actions(self) -> tuple[Action, ...]:
        """The actions of all ranks, rank by rank."""
        return tuple(action for actions in self.ranks for action in actions)

    @cached_property
    def numbers(self) -> Mapping[Action, int]:
        """The index of each action in ``actions``."""
        return {action: number for number, action in enumerate(self.actions)}

    @cached_property
    def halves(self) -> bool:
        """Whether any backward pass is split."""
        return any(action.kind is Pass.INPUT for action in self.actions)

    @cached_property
    def rank_of(self) -> Mapping[int, int]:
        """The rank of each stage."""
        return {action.stage: rank for rank, row in enumerate(self.ranks) for action in row}

    @cached_property
    def stages(self) -> int:
        return 1 + max(action.stage for action in self.actions)

    @cached_property
    def microbatches(self) -> int:
        return 1 + max(action.microbatch for action in self.actions)

    def needs(self, action: Action) -> tuple[Action, ...]:
        """Returns the actions whose results an action reads."""
        stage, microbatch = action.stage, action.microbatch
        match action.kind:
            case Pass.FORWARD:
                return (Action(stage - 1, Pass.FORWARD, microbatch),) if stage else ()
            case Pass.WEIGHT:
                return (Action(stage, Pass.INPUT, microbatch),)
            case Pass.BACKWARD | Pass.INPUT:
                forward = Action(stage, Pass.FORWARD, microbatch)
                if stage + 1 == self.stages:
                    return (forward,)
                return (forward, self.gradient(stage + 1, microbatch))

    @cached_property
    def tasks(self) -> TaskOrder:
        """The actions by number, each after its dependencies and its rank's earlier actions."""
        numbers = self.numbers
        before = [[numbers[need] for need in self.needs(action)] for action in self.actions]
        return arrange_tasks(before, [[numbers[action] for action in row] for row in self.ranks])

    def held(self) -> tuple[int, ...]:
        """Returns for each rank the most microbatches whose activations it holds, chunk by chunk.

        Activations are held from a forward pass until the end of the backward pass, or of its half
        for the input. ``waiting`` counts what ``W`` still needs after that, as in the zero-bubble
        paper.
        """
        return self._most({Pass.FORWARD: 1, Pass.BACKWARD: -1, Pass.INPUT: -1})

    def held_with(self, kept: float) -> tuple[float, ...]:
        """Returns the same if ``W`` reads a share ``kept`` of the activations until it ends."""
        changes = {Pass.FORWARD: 1.0, Pass.BACKWARD: -1.0, Pass.INPUT: kept - 1, Pass.WEIGHT: -kept}
        return self._most(changes)

    def waiting(self) -> tuple[int, ...]:
        """Returns for each rank the most weight gradients pending at once: I done, W not."""
        return self._most({Pass.INPUT: 1, Pass.WEIGHT: -1})

    def _most(self, changes: Mapping[Pass, N]) -> tuple[N, ...]:
        return self.most_held(lambda action: (changes.get(action.kind, 0),))

    def most_held(self, changes: Callable[[Action], Iterable[N]]) -> tuple[N, ...]:
        """Returns the peak of each rank's running total; ``changes`` yields an action's changes."""
        totals = (chain.from_iterable(map(changes, actions)) for actions in self.ranks)
        return tuple(max(accumulate(total, initial=0)) for total in totals)

    def forward(self, stage: int, microbatch: int) -> Action:
        """Returns the action that computes the activations of a stage."""
        return Action(stage, Pass.FORWARD, microbatch)

    def gradient(self, stage: int, microbatch: int) -> Action:
        """Returns the action that computes the gradient of a stage's input."""
        whole = Action(stage, Pass.BACKWARD, microbatch)
        return whole if whole in self.numbers else Action(stage, Pass.INPUT, microbatch)

    def _check_once(self) -> None:
        """Checks that no action occurs twice, and that all actions of a stage are on one rank."""
        seen: set[Action] = set()
        ranks: dict[int, int] = {}
        for rank, actions in enumerate(self.ranks):
            for action in actions:
                first = ranks.setdefault(action.stage, rank)
                if first != rank:
                    raise InputError(
                        f"stage {action.stage} is on rank {first} and, by {action}, on rank {rank}",
                        hint="all passes of a stage run on the rank of its weights",
                    )
                if action in seen:
                    raise InputError(f"rank {rank} has {action} twice")
                seen.add(action)

    def _check_complete(self) -> None:
        """Checks that every stage has F of each microbatch, and B or its two halves."""
        for stage in range(self.stages):
            if stage not in self.rank_of:
                raise InputError(
                    f"stage {stage} has no actions, stage {self.stages - 1} has",
                    hint="stages are numbered from 0 without gaps",
                )
            for microbatch in range(self.microbatches):
                kinds = {kind for kind in Pass if Action(stage, kind, microbatch) in self.numbers}
                if kinds not in _WHOLE:
                    raise self._unlike(stage, microbatch, kinds)

    def _unlike(self, stage: int, microbatch: int, kinds: set[Pass]) -> InputError:
        """Returns the error for missing or surplus passes of a microbatch on a stage."""
        where = f"rank {self.rank_of[stage]}"
        most = f"microbatches are 0 to {self.microbatches - 1}"
        if Pass.FORWARD not in kinds:
            return InputError(f"{stage}F{microbatch} is missing", where=where, hint=most)
        backward = sorted(kind.value for kind in kinds - {Pass.FORWARD})
        hint = "write a backward pass as B, or as I and later W"
        if not backward:
            return InputError(f"{stage}B{microbatch} is missing", where=where, hint=most)
        if "B" in backward:
            both = " and ".join(f"{stage}{kind}{microbatch}" for kind in backward)
            return InputError(f"{both} repeat each other", where=where, hint=hint)
        other = "W" if backward == ["I"] else "I"
        problem = (
            f"{stage}{other}{microbatch} is missing, as there is {stage}{backward[0]}{microbatch}"
        )
        return InputError(problem, where=where, hint=hint)

    def _check_each_stage(self) -> None:
        """Checks that F precedes its backward pass, and I precedes W, on the rank."""
        for action in self.actions:
            for needed in self.needs(action):
                if needed.stage == action.stage and self.numbers[needed] > self.numbers[action]:
                    raise InputError(
                        f"{action} comes before {needed}",
                        where=f"rank {self.rank_of[action.stage]}",
                        hint=f"{action} needs the result of {needed}",
                    )

    def _stuck(self, circle: Iterable[Action]) -> InputError:
        """Returns the error for ranks that wait for each other, given a cycle of actions."""
        chain = list(circle)
        waits = []
        for action, other in pairwise([*chain, chain[0]]):
            if other in self.needs(action):
                waits.append(f"{action} needs {other}")
            else:
                waits.append(f"rank {self.rank_of[other.stage]} runs {other} before {action}")
        return InputError(
            f"no rank can continue: {', '.join(waits)}",
            hint="swap the two on one of the ranks",
        )


_WHOLE = (
    {Pass.FORWARD, Pass.BACKWARD},
    {Pass.FORWARD, Pass.INPUT, Pass.WEIGHT},
)
"""The kinds of passes of each microbatch on a stage, with whole and with split backward passes."""
