"""The tasks of one device in a step, on streams: groups of operations, and communication.

All devices of a stage do the same work, so one device represents all. The program specifies the
stage and the phase of each task; with microbatches, the tasks are those of one microbatch. A loop
is written out group by group, because communication of one layer can overlap computation of
another. Each slice of a stack that a loop makes is a separate value, which can be sent as soon as
its iteration is done.

>>> from synth.step.sharding import InstructionPlace, StepPhase
>>> from synth.step.simulation.device import COMPUTE, DeviceTasks, Task
>>> here = InstructionPlace(0, StepPhase.BEFORE)
>>> product = Task("product", COMPUTE, 2.0, (), here, issue=0)
>>> reduced = Task("all-reduce", "over data", 1.0, (0,), here, issue=1)
>>> DeviceTasks((product, reduced), ()).streams
{'compute': [0], 'over data': [1]}
"""

from synth.step.simulation.device.sends import (
    LinkOccupancy,
    RedistributionSeconds,
    occupy_nothing,
)
from synth.step.simulation.device.tasks import (
    COMPUTE,
    Buffer,
    DeviceTasks,
    Overlap,
    StageSend,
    Task,
)
from synth.step.simulation.device.writing import SectionSeconds, grouping_of, write_device

__all__ = [
    "COMPUTE",
    "Buffer",
    "DeviceTasks",
    "LinkOccupancy",
    "Overlap",
    "RedistributionSeconds",
    "SectionSeconds",
    "StageSend",
    "Task",
    "grouping_of",
    "occupy_nothing",
    "write_device",
]
