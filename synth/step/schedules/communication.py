"""Schedules with sends and receives, in the format that PyTorch dumps (``compute_comms``).

A rank runs its sends and receives one after the other, each after the passes before it, as NCCL
does on one communicator. By *rendezvous*, the default, a send ends when it is received, as large
sends do between nodes; *eager* sends are buffered, and nothing waits for them. A pass waits for
the receive of its input; on *blocking* ranks, it waits for all communication before it. The
position of a receive therefore decides how long ranks wait behind it, and whether they deadlock
(pytorch/pytorch issues 172668 and 188833).

>>> from synth.step.schedules.communication import parse_comm_schedule
>>> text = "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 / "
>>> text += "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1"
>>> print(parse_comm_schedule(text.replace(" / ", chr(10))).order)
0F0 0F1 0B0 0B1
1F0 1B0 1F1 1B1
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hierarchies import InputError, error_context
from synth.events.longest_path import time_tasks
from synth.step.schedules.clock import ActionSpan, ScheduleTimeline, TransferProtocol
from synth.step.schedules.halves import (
    Comm,
    CommGraph,
    FsdpAction,
    Half,
    Item,
    find_deadlock,
    receive_of,
)
from synth.step.schedules.order import Action, Pass, PipelineSchedule
from synth.step.schedules.text import actions_of, cells_of, to_csv

_HALF = re.compile(r"([0-9]{1,6})(SEND_F|RECV_F|SEND_B|RECV_B)([0-9]{1,6})")
_SHARDED = re.compile(r"([0-9]{1,6})(UNSHARD|RESHARD|REDUCE_GRAD)")


def communicates(text: str) -> bool:
    """Returns whether a text contains anything other than passes."""
    return any(word in text for word in ("SEND_", "RECV_", "SHARD", "REDUCE_GRAD"))


@dataclass(frozen=True)
class CommSchedule:
    """A schedule, with the sends and receives among the passes of each rank.

    ``cells``: the cells of its text, a row per rank.
    """

    order: PipelineSchedule
    rows: tuple[tuple[Item, ...], ...]
    cells: tuple[tuple[str, ...], ...]
    protocol: TransferProtocol

    def timeline(
        self, seconds: Callable[[Action], float], transfer_seconds: float
    ) -> ScheduleTimeline:
        """Times each pass; every transfer takes ``transfer_seconds``."""
        graph = CommGraph(self.rows, self.protocol)
        sending = [transfer_seconds * half.kind.sends for half in graph.halves]
        begins, ends = time_tasks(graph.tasks, [*map(seconds, graph.actions), *sending])
        spans = list(map(ActionSpan, graph.actions, begins, ends))
        return ScheduleTimeline(
            tuple(tuple(spans[task] for task in queue) for queue in graph.queues)
        )

    def csv(self) -> str:
        """Returns the file for ``_PipelineScheduleRuntime._load_csv``, format ``compute_comms``.

        Raises InputError as ``to_csv`` does for a schedule.
        """
        to_csv(self.order)
        return "".join(",".join(row) + "\n" for row in self.cells)


def parse_comm_schedule(
    text: str, protocol: TransferProtocol = TransferProtocol.RENDEZVOUS
) -> CommSchedule:
    """Parses a schedule with sends and receives; ``protocol`` decides when they end.

    Raises InputError with line and cell for an unknown action; for a deadlock; for a half that is
    missing, or on the wrong side of its pass; and for passes that do not form a schedule.
    """
    cells = tuple(tuple(cells_of(line)) for line in text.rstrip().splitlines())
    rows = tuple(tuple(_row(row, number)) for number, row in enumerate(cells, 1))
    ranks = tuple(tuple(item for item in row if isinstance(item, Action)) for row in rows)
    _check_each(rows)
    if deadlock := find_deadlock(CommGraph(rows, protocol)):
        raise InputError(f"no rank can continue: {'; '.join(deadlock)}", hint=_hint(rows, protocol))
    _check_received(rows)
    order = PipelineSchedule(ranks)
    _check_sent(order, rows)
    for rank, row in enumerate(rows):
        with error_context(f"rank {rank}"):
            _check_sharded(row)
    return CommSchedule(order, rows, cells, protocol)


def _row(cells: Sequence[str], number: int) -> Iterator[Item]:
    for place, cell in enumerate(cells, 1):
        with error_context(f"line {number}, action {place}"):
            if match := _HALF.fullmatch(cell):
                yield Half(int(match[1]), Comm(match[2]), int(match[3]))
            elif match := _SHARDED.fullmatch(cell):
                yield FsdpAction(int(match[1]), match[2])
            else:
                yield from actions_of(cell)


def _hint(rows: Sequence[Sequence[Item]], protocol: TransferProtocol) -> str:
    hint = "swap the two on one of the ranks"
    if protocol is TransferProtocol.EAGER or find_deadlock(CommGraph(rows, TransferProtocol.EAGER)):
        return hint
    return f"{hint}; or give --protocol eager, if sends are small enough to be buffered"


def _check_each(rows: Sequence[Sequence[Item]]) -> None:
    """Checks that each half occurs once, on its stage's rank, on the right side of its pass."""
    places = {item: (rank, at) for rank, row in enumerate(rows) for at, item in enumerate(row)}
    rank_of = {item.stage: rank for item, (rank, _) in places.items() if isinstance(item, Action)}
    if sum(map(len, rows)) > len(places):
        _check_once(rows)
    for item, (rank, _) in places.items():
        with error_context(f"rank {rank}"):
            if isinstance(item, Half | FsdpAction) and rank_of.get(item.stage) != rank:
                hint = "a stage sends and receives on the rank of its passes"
                raise InputError(
                    f"{item} on a rank without passes of stage {item.stage}", hint=hint
                )
            if isinstance(item, Half):
                _check_half(item, rank_of, places)


def _check_once(rows: Sequence[Sequence[Item]]) -> None:
    """Checks that only actions of FSDP repeat."""
    seen: set[Item] = set()
    for rank, row in enumerate(rows):
        for item in row:
            if item in seen and not isinstance(item, FsdpAction):
                raise InputError(f"rank {rank} has {item} twice")
            seen.add(item)


def _check_half(
    half: Half, rank_of: Mapping[int, int], places: Mapping[Item, tuple[int, int]]
) -> None:
    other = half.other.stage
    if other not in rank_of:
        raise InputError(f"{half}: there is no stage {other}")
    if rank_of[other] == rank_of[half.stage]:
        raise InputError(
            f"{half}: stages {half.stage} and {other} are both on rank {rank_of[other]}",
            hint="stages of one rank send nothing to each other: remove it",
        )
    for action in half.passes:
        if action in places and (places[action] > places[half]) is half.kind.sends:
            late, early = (action, half) if half.kind.sends else (half, action)
            raise InputError(
                f"{early} comes before {late}", hint=f"{early} needs the result of {late}"
            )


def _check_received(rows: Sequence[Sequence[Item]]) -> None:
    """Checks that every half has its other half."""
    items = {item for row in rows for item in row}
    for rank, row in enumerate(rows):
        for item in row:
            if isinstance(item, Half) and item.other not in items:
                raise InputError(
                    f"{item} waits forever: {item.other} is missing",
                    where=f"rank {rank}",
                    hint="give both the send and its receive, on two ranks, or neither",
                )


def _check_sent(order: PipelineSchedule, rows: Sequence[Sequence[Item]]) -> None:
    """Checks that each pass has a receive for every value that it reads from another rank."""
    items = {item for row in rows for item in row}
    for action in order.actions:
        receive = receive_of(action)
        source = order.rank_of.get(receive.other.stage, order.rank_of[action.stage])
        if source != order.rank_of[action.stage] and receive not in items:
            raise InputError(
                f"{action} needs {receive}, which is missing",
                where=f"rank {order.rank_of[action.stage]}",
                hint=f"rank {source} has its input: add {receive.other} and {receive}",
            )


def _check_sharded(row: Sequence[Item]) -> None:
    """Checks that parameters are gathered where a pass reads them, if FSDP gathers them at all."""
    named = {item.stage for item in row if isinstance(item, FsdpAction) and item.word == "UNSHARD"}
    left = Counter(item.stage for item in row if isinstance(item, Action) and item.kind in _LAST)
    whole: set[int] = set()
    for item in row:
        if isinstance(item, Action):
            left[item.stage] -= item.kind in _LAST
            if item.stage in named - whole:
                hint = f"{item.stage}UNSHARD before it"
                raise InputError(f"{item} while stage {item.stage} is sharded", hint=hint)
        elif isinstance(item, FsdpAction) and item.word == "REDUCE_GRAD":
            if left[item.stage]:
                raise InputError(f"{item} before the last backward pass of stage {item.stage}")
        elif isinstance(item, FsdpAction):
            if (item.stage in whole) is (item.word == "UNSHARD"):
                raise InputError(f"{item} is repeated")
            whole ^= {item.stage}


_LAST = (Pass.BACKWARD, Pass.WEIGHT)
"""Passes that, once done for all microbatches, complete the gradients of a stage."""
