"""Questions cut into pieces that are worked on apart, and merged into the very same answer.

A question goes in rounds: a round of pieces, then what came of them decides the next. A range of
message sizes is cut by size, and halved again between neighbours whose best programs differ.
However many pieces there were, the merged answer has the same bytes as that of one process, or
nobody could keep it for both.

>>> from synth.verbs.partition import course, in_turn
>>> from synth.verbs.questions import asked
>>> from synth.verbs.table import VERBS
>>> question = asked(VERBS["count"].question, {"digits": 2, "max_steps": 3})
>>> in_turn(course("count", question, pieces=4)) == in_turn(course("count", question))
True
"""

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
