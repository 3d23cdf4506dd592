"""Questions cut into pieces that are worked on apart, and merged into the very same answer."""

from synth.verbs.partition.best_so_far import best_so_far_json
from synth.verbs.partition.library_cache import LibraryCache
from synth.verbs.partition.pieces import Piece, carry_out
from synth.verbs.partition.rounds import Rounds, in_turn, rounds_of

__all__ = [
    "LibraryCache",
    "Piece",
    "Rounds",
    "best_so_far_json",
    "carry_out",
    "in_turn",
    "rounds_of",
]
