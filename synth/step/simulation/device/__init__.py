"""What one device does in a step, as tasks on streams: groups of operations, and what is sent.

All devices of a stage do the same, so one stands for all. The program says on which stage a task is
done, and when; with microbatches tasks are those of one of them. A loop is written out, group by
group, as what one layer sends may run beside what another computes; of a stack that a loop makes
every slice is a value of its own, which is there, and may be sent, when its iteration is done.

>>> from synth.step.sharding import Place, When
>>> from synth.step.simulation.device import COMPUTE, Device, Task
>>> here = Place(0, When.BEFORE)
>>> product = Task("product", COMPUTE, 2.0, (), here, issue=0)
>>> reduced = Task("all-reduce", "over data", 1.0, (0,), here, issue=1)
>>> Device((product, reduced), ()).streams
{'compute': [0], 'over data': [1]}
"""

from synth.step.simulation.device.sends import Sending
from synth.step.simulation.device.tasks import COMPUTE, Buffer, Device, Handed, Overlap, Task
from synth.step.simulation.device.writing import Computing, device, grouping_of

__all__ = [
    "COMPUTE",
    "Buffer",
    "Computing",
    "Device",
    "Handed",
    "Overlap",
    "Sending",
    "Task",
    "device",
    "grouping_of",
]
