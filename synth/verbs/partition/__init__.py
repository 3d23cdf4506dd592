"""Questions cut into pieces that are worked on apart, and merged into the very same answer.

A question goes in rounds: a round of pieces, then what came of them decides the next. A range of
message sizes is cut by size, and halved again between neighbours whose best programs differ.
However many pieces there were, the merged answer has the same bytes as that of one process, or
nobody could keep it for both.

>>> from synth.verbs.partition import rounds_of, in_turn
>>> from synth.verbs.questions import asked
>>> from synth.verbs.table import VERBS
>>> question = asked(VERBS["count"].question, {"digits": 2, "max_steps": 3})
>>> in_turn(rounds_of("count", question, pieces=4)) == in_turn(rounds_of("count", question))
True
"""

from synth.verbs.partition.best_so_far import best_so_far_json
from synth.verbs.partition.library_cache import LibraryCache
from synth.verbs.partition.pieces import Piece, WholeQuestion, carry_out
from synth.verbs.partition.rounds import Rounds, in_turn, rounds_of

__all__ = [
    "LibraryCache",
    "Piece",
    "Rounds",
    "WholeQuestion",
    "best_so_far_json",
    "carry_out",
    "in_turn",
    "rounds_of",
]
