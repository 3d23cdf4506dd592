"""Questions cut into pieces that are worked on apart, and merged into the very same answer.

A question goes in rounds: the results of one round of pieces decide the pieces of the next. A range
of message sizes is cut by size, and halved again between neighbours whose best programs differ.
However many pieces there were, the merged answer has the same bytes as that of one process, so that
one kept answer serves both.

>>> from synth.verbs.partition import rounds_of
>>> from synth.verbs.questions.question import asked
>>> from synth.verbs.table import VERBS
>>> given = {"systems": ["dgx-h100:1", "dgx-a100:1"], "axes": {"data": 8}, "reduce": ["data"]}
>>> question = asked(VERBS["sweep"].question, given)
>>> [len(next(rounds_of("sweep", question, pieces))) for pieces in (1, 4)]
[1, 2]
"""

from synth.verbs.partition.best_so_far import best_so_far_json
from synth.verbs.partition.library_cache import LibraryCache
from synth.verbs.partition.pieces import Piece, WholeQuestion, carry_out
from synth.verbs.partition.rounds import Rounds, rounds_of

__all__ = [
    "LibraryCache",
    "Piece",
    "Rounds",
    "WholeQuestion",
    "best_so_far_json",
    "carry_out",
    "rounds_of",
]
