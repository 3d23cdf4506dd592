"""Questions cut into pieces that are worked on apart, and merged into the very same answer."""

from synth.cutting.course import Course, course, in_turn
from synth.cutting.pieces import Piece, carry_out

__all__ = ["Course", "Piece", "carry_out", "course", "in_turn"]
