"""Discrete-event simulation for segments, flows and whole steps, independent of programs.

Activities wait for each other and share resources: links, memory, a queue. In a pipeline of two
phases of 1 s each, four segments take 5 s and not 8, because the phases overlap, but only if they
need different links. On the same link each gets half, and nothing is gained. Where the order on
each resource is given, as by a training step's plan, there is no queue: ``longest_path`` applies,
or ``contention`` if links or cores are shared as well.

>>> from synth.events.overlap import PhaseWork, makespan_seconds
>>> inside, between = PhaseWork(0.0, {"nvlink": 1.0}), PhaseWork(0.0, {"network": 1.0})
>>> makespan_seconds([inside, between], segments=4)
5.0
>>> makespan_seconds([inside, inside], segments=4)
8.0
"""

from synth.events.engine import Course as Course
from synth.events.engine import Engine as Engine
