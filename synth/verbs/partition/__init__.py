"""Questions cut into pieces that are worked on apart, and merged into the very same answer."""

from synth.verbs.partition.course import Course, course, in_turn
from synth.verbs.partition.leaders import leaders_json
from synth.verbs.partition.pieces import Piece, WholeQuestion, carry_out
from synth.verbs.partition.shelf import Shelf

__all__ = [
    "Course",
    "Piece",
    "Shelf",
    "WholeQuestion",
    "carry_out",
    "course",
    "in_turn",
    "leaders_json",
]
