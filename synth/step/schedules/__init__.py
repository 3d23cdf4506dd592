"""Pipeline schedules: the order in which each rank runs its passes of microbatches.

A schedule is checked when it is constructed, so every schedule can be executed. It is written in
the notation of PyTorch, whose runtime executes it: ``1F0`` is stage 1's forward pass of
microbatch 0.

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

from synth.step.schedules.clock import Durations as Durations
from synth.step.schedules.clock import ScheduleTimeline as ScheduleTimeline
from synth.step.schedules.clock import TransferGraph as TransferGraph
from synth.step.schedules.clock import TransferProtocol as TransferProtocol
from synth.step.schedules.clock import Transfers as Transfers
from synth.step.schedules.clock import build_transfer_graph as build_transfer_graph
from synth.step.schedules.clock import time_schedule as time_schedule
from synth.step.schedules.communication import CommSchedule as CommSchedule
from synth.step.schedules.communication import communicates as communicates
from synth.step.schedules.communication import parse_comm_schedule as parse_comm_schedule
from synth.step.schedules.generators import HALVES as HALVES
from synth.step.schedules.generators import ONE_STAGE as ONE_STAGE
from synth.step.schedules.generators import SCHEDULES as SCHEDULES
from synth.step.schedules.generators import V_SHAPED as V_SHAPED
from synth.step.schedules.generators import check_sizes as check_sizes
from synth.step.schedules.generators import chunks_of as chunks_of
from synth.step.schedules.generators import count_held as count_held
from synth.step.schedules.generators import gpipe as gpipe
from synth.step.schedules.generators import interleaved as interleaved
from synth.step.schedules.generators import looped_bfs as looped_bfs
from synth.step.schedules.generators import one_f_one_b as one_f_one_b
from synth.step.schedules.generators import zero_bubble_h1 as zero_bubble_h1
from synth.step.schedules.order import Action as Action
from synth.step.schedules.order import Pass as Pass
from synth.step.schedules.order import PipelineSchedule as PipelineSchedule
from synth.step.schedules.text import parse_schedule as parse_schedule
from synth.step.schedules.text import to_csv as to_csv
from synth.step.schedules.zero_bubble import zero_bubble as zero_bubble
