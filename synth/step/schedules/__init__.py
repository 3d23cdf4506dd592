"""Pipeline schedules: the order in which each rank does its passes of microbatches.

A schedule is checked when it is made: one that exists can be carried out. It is written in
PyTorch's notation, whose runtime carries it out: ``1F0`` is stage 1's forward pass of microbatch 0.

>>> from synth.step.schedules import one_f_one_b, parse_schedule, time_schedule, Durations
>>> order = one_f_one_b(ranks=2, microbatches=2)
>>> print(order)
0F0 0F1 0B0 0B1
1F0 1B0 1F1 1B1
>>> parse_schedule(str(order)) == order
True
>>> time_schedule(order, Durations(forward_seconds=1, backward_seconds=2).on(order)).seconds
9.0
"""

from synth.step.schedules.clock import (
    ActionSpan,
    Durations,
    ScheduleTimeline,
    TransferGraph,
    TransferProtocol,
    Transfers,
    build_transfer_graph,
    time_schedule,
)
from synth.step.schedules.communication import CommSchedule, communicates, parse_comm_schedule
from synth.step.schedules.generators import (
    HALVES,
    ONE_STAGE,
    SCHEDULES,
    V_SHAPED,
    check_sizes,
    chunks_of,
    count_held,
    gpipe,
    interleaved,
    looped_bfs,
    one_f_one_b,
    zero_bubble_h1,
)
from synth.step.schedules.order import Action, Pass, PipelineSchedule
from synth.step.schedules.text import parse_schedule, to_csv
from synth.step.schedules.v_shaped import dualpipev, zbv
from synth.step.schedules.zero_bubble import zero_bubble

__all__ = [
    "HALVES",
    "ONE_STAGE",
    "SCHEDULES",
    "V_SHAPED",
    "Action",
    "ActionSpan",
    "CommSchedule",
    "Durations",
    "Pass",
    "PipelineSchedule",
    "ScheduleTimeline",
    "TransferGraph",
    "TransferProtocol",
    "Transfers",
    "build_transfer_graph",
    "check_sizes",
    "chunks_of",
    "communicates",
    "count_held",
    "dualpipev",
    "gpipe",
    "interleaved",
    "looped_bfs",
    "one_f_one_b",
    "parse_comm_schedule",
    "parse_schedule",
    "time_schedule",
    "to_csv",
    "zbv",
    "zero_bubble",
    "zero_bubble_h1",
]
