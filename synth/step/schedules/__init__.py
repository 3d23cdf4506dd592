"""Pipeline schedules: which passes of which microbatches each rank does, one after the other.

An order is checked when it is made: one that exists can be carried out. It is written in PyTorch's
notation, whose runtime carries it out: ``1F0`` is stage 1's forward pass of microbatch 0.

>>> from synth.step.schedules import one_f_one_b, parse, timeline, Durations
>>> order = one_f_one_b(ranks=2, microbatches=2)
>>> print(order)
0F0 0F1 0B0 0B1
1F0 1B0 1F1 1B1
>>> parse(str(order)) == order
True
>>> timeline(order, Durations(forward_seconds=1, backward_seconds=2).on(order)).seconds
9.0
"""

from synth.step.schedules.clock import (
    Durations,
    Protocol,
    Scheduled,
    Span,
    Timeline,
    Transfers,
    scheduled,
    timeline,
)
from synth.step.schedules.communication import Communicated, communicates, parse_communicated
from synth.step.schedules.generators import (
    HALVES,
    ONE_STAGE,
    SCHEDULES,
    V_SHAPED,
    check_sizes,
    chunks_of,
    gpipe,
    held,
    interleaved,
    looped_bfs,
    one_f_one_b,
    zero_bubble_h1,
)
from synth.step.schedules.order import Action, Order, Pass
from synth.step.schedules.text import csv, parse
from synth.step.schedules.v_shaped import dualpipev, zbv
from synth.step.schedules.zero_bubble import zero_bubble

__all__ = [
    "HALVES",
    "ONE_STAGE",
    "SCHEDULES",
    "V_SHAPED",
    "Action",
    "Communicated",
    "Durations",
    "Order",
    "Pass",
    "Protocol",
    "Scheduled",
    "Span",
    "Timeline",
    "Transfers",
    "check_sizes",
    "chunks_of",
    "communicates",
    "csv",
    "dualpipev",
    "gpipe",
    "held",
    "interleaved",
    "looped_bfs",
    "one_f_one_b",
    "parse",
    "parse_communicated",
    "scheduled",
    "timeline",
    "zbv",
    "zero_bubble",
    "zero_bubble_h1",
]
