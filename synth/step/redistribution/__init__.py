"""Redistribution of a value from one sharding over the axes of a placement to another.

``find_path`` finds the cheapest sequence of moves. ``requests.list_communications`` turns each move
that communicates into a request to the planner of collectives, and ``seconds.NetworkPrices`` prices
the requests. With axes of 2 and 3 devices, from rows cut over both axes to rows cut over the
second:

>>> from grammar.tensors.sharding import Sharding, Type
>>> from synth.step.redistribution import find_path
>>> rows, sizes = Type("f32", (6, 6)), {"data": 2, "model": 3}
>>> path = find_path(rows, Sharding((("data", "model"), ())), Sharding((("model",), ())), sizes)
>>> for move in path.moves:
...     print(f"{move.before.spelled()} -> {move.after.spelled()}: {move}")
[?@(data,model),?] -> [?@(model,data),?]: permute data, model
[?@(model,data),?] -> [?@model,?]: all-gather dimension 0 over data
>>> print(path.least(sizes), path.least_bytes(rows, sizes))
1/3 48
"""

from synth.step.redistribution.moves import MoveKind as MoveKind
from synth.step.redistribution.moves import RedistributionPath as RedistributionPath
from synth.step.redistribution.moves import ShardingMove as ShardingMove
from synth.step.redistribution.moves import pad_move as pad_move
from synth.step.redistribution.paths import find_path as find_path
