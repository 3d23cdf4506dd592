"""Schedules as text, in PyTorch's notation: a line for each rank, ``0F0,0F1,,0B0`` or with spaces.

``_PipelineScheduleRuntime`` reads and writes this format as CSV. An empty cell is a time step in
which the rank is idle; that runtime ignores empty cells, so they are dropped here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hierarchies import InputError, error_context
from synth.step.schedules.order import Action, Pass, PipelineSchedule

_ACTION = re.compile(r"([0-9]{1,6})([FBIW])([0-9]{1,6})")
_OVERLAPPED = re.compile(r"\((.*)\)OVERLAP_F_B")
_COMMUNICATION = re.compile(
    r"[0-9]+(UNSHARD|RESHARD|REDUCE_GRAD|SEND_F|RECV_F|SEND_B|RECV_B)[0-9]*"
)


def parse_schedule(text: str) -> PipelineSchedule:
    """Parses a schedule: cells separated by commas or spaces, a line for each rank.

    A pair ``(0F4;3B0)OVERLAP_F_B`` is read as two consecutive actions, as PyTorch's runtime does
    them unless it has a function for such pairs. Raises InputError with line and cell.
    """
    lines = text.rstrip().splitlines()
    return PipelineSchedule(
        tuple(tuple(_row(line, number)) for number, line in enumerate(lines, 1))
    )


def to_csv(order: PipelineSchedule) -> str:
    """Returns the file for ``_PipelineScheduleRuntime._load_csv``, format ``compute_only``.

    Raises InputError if the last stage's forward passes are not in the order of microbatches: that
    runtime looks up a microbatch's loss by its number in the order in which losses were computed.
    """
    last = [action for action in order.actions if action.stage == order.stages - 1]
    forward = [action for action in last if action.kind is Pass.FORWARD]
    for number, action in enumerate(forward):
        if action.microbatch != number:
            raise InputError(
                f"the last stage runs {action}, which PyTorch's runtime takes for "
                f"{Action(action.stage, Pass.FORWARD, number)}",
                hint="its gradients would be wrong: run the microbatches of that stage in order",
            )
    return "".join(",".join(map(str, actions)) + "\n" for actions in order.ranks)


def _row(line: str, number: int) -> Iterator[Action]:
    for place, cell in enumerate(cells_of(line), 1):
        with error_context(f"line {number}, action {place}"):
            yield from actions_of(cell)


def cells_of(line: str) -> list[str]:
    """Returns the non-empty cells of a line."""
    return [*filter(None, re.split(r'[,\s"]+', line))]


def actions_of(cell: str) -> Iterator[Action]:
    """Yields the passes of a cell: one pass, or a pair. Raises InputError for any other cell."""
    if pair := _OVERLAPPED.fullmatch(cell):
        for action in pair[1].split(";"):
            yield _action(action)
    else:
        yield _action(cell)


def _action(cell: str) -> Action:
    if match := _ACTION.fullmatch(cell):
        return Action(int(match[1]), Pass(match[2]), int(match[3]))
    if _COMMUNICATION.fullmatch(cell):
        raise InputError(
            f"{cell[:40]!r} is communication",
            hint="give the order without communication (compute_only); 'collsynth "
            "order' checks it with it",
        )
    raise InputError(
        f"{cell[:40]!r} is not an action",
        hint="stage, F, B, I or W, and microbatch, as in 1F0",
    )
