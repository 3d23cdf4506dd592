"""Questions carried out by any process, and what of them several processes do at once.

A question goes to one worker. There the work that can be done apart is taken from one queue by as
many processes as the worker may have (``synth.search.forks``): placements in the order of their
bounds, each with the k-th price found by then, sizes of a range, systems, what stages of a plan do,
plans to be simulated, programs to be proved. What each makes of its item does not depend on who
else works, so the answer has the same bytes as that of one process.

>>> from synth.collective.ranking.request import Watcher
>>> from synth.ask.partition import Piece, carry_out
>>> piece = Piece(verb="count", question={"digits": 1, "max_steps": 2})
>>> carry_out(Piece.of(piece.text), Watcher())["body"]["by_length"]
[1, 2]
"""

from synth.ask.partition.best_so_far import NOTHING_YET, best_so_far_json
from synth.ask.partition.library_cache import LibraryCache
from synth.ask.partition.pieces import REPLY, Piece, carry_out

__all__ = ["NOTHING_YET", "REPLY", "LibraryCache", "Piece", "best_so_far_json", "carry_out"]
