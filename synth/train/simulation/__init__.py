"""A sharded step on the clock: tasks of one device on its streams, seconds, memory, a timeline.

``device`` writes out what every device does of a program, with seconds of operations and of
redistributions that the caller gives; ``simulate`` times it, ``pipelined`` in stages by an order.
All devices of a program do the same, so one stands for all. There is no queue: the order on each
stream is the plan's, and an end is the longest path to it. Compute and what is exposed of
communication add up to the step. A buffer lives from the begin of its maker to the end of its last
reader, so the order decides what memory is needed.

>>> from grammar.tensors.operations import Graph, Operation, Step, Value
>>> from grammar.tensors.sharding import Sharding, Type
>>> from synth.train.plans import apply, parse_recipe, plan_of
>>> from synth.train.simulation import device, simulate
>>> x, w = Value("x", Type("f32", (8, 4))), Value("w", Type("f32", (4,)))
>>> y, g, new = Value("y", Type("f32", (8,))), Value("g", Type("f32", (4,))), Value("n", w.type)
>>> told = (("dimension_numbers", (((1,), (0,)), ((), ()))),)
>>> back = (("dimension_numbers", (((0,), (0,)), ((), ()))),)
>>> forward = Operation("dot_general", (x, w), (y,), told)
>>> backward = Operation("dot_general", (x, y), (g,), back)
>>> update = Operation("sub", (w, g), (new,))
>>> graph = Graph((x, w), (forward, backward, update), (new,))
>>> step = Step("line", graph, ("batch", "parameter"), ("x", "w"), ((0, 1),))
>>> plan = plan_of(step, parse_recipe("data=2; batch over data"))
>>> written = device(step, plan, apply(step, plan), lambda op: 1.0, lambda *how: 0.5)
>>> done = simulate(written)
>>> done.seconds, done.sent[0].request, done.sent[0].exposed_seconds
(3.5, 'all-reduce (sum) over data', 0.5)
"""

from synth.train.simulation.device import Device, Overlap, Task, device
from synth.train.simulation.kinds import Kind
from synth.train.simulation.memory import Lives, Moment
from synth.train.simulation.pipeline import Pipelined, pipelined
from synth.train.simulation.simulation import Row, Sent, Simulated, simulate

__all__ = [
    "Device",
    "Kind",
    "Lives",
    "Moment",
    "Overlap",
    "Pipelined",
    "Row",
    "Sent",
    "Simulated",
    "Task",
    "device",
    "pipelined",
    "simulate",
]
