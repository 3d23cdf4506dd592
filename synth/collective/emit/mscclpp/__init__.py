"""MSCCL++ execution plans, and an independent judge that reads only the plan.

MSCCL++ runs a plan in JSON: for each GPU, threadblocks that put, wait and reduce chunks. A schedule
becomes rounds of messages, rounds become operations, and a judge that knows only the JSON executes
it symbolically, because on a GPU a wrong plan would not fail but give wrong sums. Two GPUs
all-reduce in two rounds: each GPU sends the half that the other sums, then the sum of its own half.

>>> from grammar import parse
>>> from hierarchies import Reduction
>>> from synth.collective.emit.mesh import mesh
>>> from synth.collective.emit.mscclpp.homes import BUFFERS, SPAN
>>> from synth.collective.emit.mscclpp.moves import messages_of
>>> from synth.collective.semantics.lowering import lower
>>> from synth.collective.semantics.rules import derive
>>> reduction = Reduction.plain(2)
>>> schedule = lower(derive(parse("all-reduce root inside"), reduction.tree), reduction, 64)
>>> found = messages_of(schedule, mesh(reduction.placement), reduction.grid()[0], hosts=(0, 0))
>>> for each in found.rounds:
...     print([(send.source, send.target, send.chunks) for send in each.sends])
...     print([BUFFERS[send.writes[0] // SPAN] for send in each.sends])
[(1, 0, (0,)), (0, 1, (1,))]
['s', 's']
[(1, 0, (1,)), (0, 1, (0,))]
['i', 'i']
"""
