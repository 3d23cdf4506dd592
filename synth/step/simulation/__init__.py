"""Simulates a sharded step: tasks of one device on its streams, seconds, memory, a timeline.

``predict_step`` times the program of a plan. The caller provides the seconds of sections
(operations without communication between them), of redistributions, and of transfers from stage to
stage. All devices of a stage do the same work, so one device represents all: ``write_device``
writes its tasks, and ``simulate`` times them. ``simulate_pipeline`` times the passes of all stages
in the order of a schedule. Each stream runs its tasks in the plan's order, so the end of a task is
the length of the longest path to it. Computation, exposed communication and bubble of a rank add up
to the seconds of the step. A buffer is live from the begin of the task that makes it to the end of
the last task that reads it, so the order determines how much memory is needed.

>>> from grammar.tensors.operations import Graph, Operation, Step, Value
>>> from grammar.tensors.sharding import Sharding, Type
>>> from synth.step.sharding import apply, parse_recipe, plan_of
>>> from synth.step.simulation import Sources, predict_step
>>> x, w = Value("x", Type("f32", (8, 4))), Value("w", Type("f32", (4,)))
>>> y, g, new = Value("y", Type("f32", (8,))), Value("g", Type("f32", (4,))), Value("n", w.type)
>>> product = (("dimension_numbers", (((1,), (0,)), ((), ()))),)
>>> gradient = (("dimension_numbers", (((0,), (0,)), ((), ()))),)
>>> forward = Operation("dot_general", (x, w), (y,), product)
>>> backward = Operation("dot_general", (x, y), (g,), gradient)
>>> update = Operation("sub", (w, g), (new,))
>>> graph = Graph((x, w), (forward, backward, update), (new,))
>>> step = Step("line", graph, ("batch", "parameter"), ("x", "w"), ((0, 1),))
>>> plan = plan_of(step, parse_recipe("data=2; batch over data"))
>>> computing = lambda section: float(len(section.operations))
>>> seconds = Sources(computing, sending=lambda *how: 0.5, handing=lambda *how: 0.0)
>>> done = predict_step(step, plan, apply(step, plan), seconds)
>>> [sent] = done.ranks[0].sent
>>> done.seconds, sent.request, sent.exposed_seconds
(3.5, 'all-reduce (sum) over data', 0.5)
"""

from synth.step.simulation.device import DeviceTasks, Overlap, Task, write_device
from synth.step.simulation.kinds import BufferKind
from synth.step.simulation.memory import BufferLifetimes, MemorySnapshot
from synth.step.simulation.pipeline import PipelineTimeline, simulate_pipeline
from synth.step.simulation.predicting import (
    PipelineRank,
    Sources,
    StepPrediction,
    StepRuntime,
    predict_step,
)
from synth.step.simulation.simulation import (
    DeviceTimeline,
    RequestSummary,
    StepTimelineRow,
    simulate,
)

__all__ = [
    "BufferKind",
    "BufferLifetimes",
    "DeviceTasks",
    "DeviceTimeline",
    "MemorySnapshot",
    "Overlap",
    "PipelineRank",
    "PipelineTimeline",
    "RequestSummary",
    "Sources",
    "StepPrediction",
    "StepRuntime",
    "StepTimelineRow",
    "Task",
    "predict_step",
    "simulate",
    "simulate_pipeline",
    "write_device",
]
