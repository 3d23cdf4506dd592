"""One collective: which programs carry it out, what they cost, and which are fastest.

The packages stand in the order of the data. ``semantics`` says what a program does, ``verify``
proves it, ``algorithms`` and ``price`` say what it costs, ``ranking`` finds the best, ``emit``
writes it for other runtimes and ``run`` executes it. ``workload`` places all collectives of a job
at once; ``degraded`` covers machines that lack devices.

>>> from hierarchies import load
>>> from synth.collective.ranking.advice import top
>>> report = top("dgx-h100:1", axes={"data": 8}, reduce=["data"], k=1, max_steps=1, segments=1)
>>> print(report.answers[0].candidate.program)
all-reduce root inside
"""
