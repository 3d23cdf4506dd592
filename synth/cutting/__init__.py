"""Questions cut into pieces that are worked on apart, and merged into the very same answer."""

from synth.cutting.course import Course, course, in_turn
from synth.cutting.leaders import leaders_json
from synth.cutting.pieces import Piece, carry_out
from synth.cutting.shelf import Shelf

__all__ = ["Course", "Piece", "Shelf", "carry_out", "course", "in_turn", "leaders_json"]
