"""What happens when: one engine for segments, flows and whole steps. It knows no programs.

A discrete-event simulation in which activities wait for each other and share what is scarce: links,
memory, a queue. Of two phases in a pipeline, each 1 s alone, four segments take 5 s and not 8, as
the second works on a segment while the first is at the next; but only where they need different
links. On the same link each gets half, and nothing is gained. Where the order on each resource is
given, as a training step's plan gives it, there is no queue: ``longest_path``, and ``contention``
where links or cores are shared on top of it.

>>> from synth.events.overlap import PhaseWork, makespan_seconds
>>> inside, between = PhaseWork(0.0, {"nvlink": 1.0}), PhaseWork(0.0, {"network": 1.0})
>>> makespan_seconds([inside, between], segments=4)
5.0
>>> makespan_seconds([inside, inside], segments=4)
8.0
"""

from synth.events.engine import Course, Engine, Shares

__all__ = ["Course", "Engine", "Shares"]
