"""WHAT CAN BE SAID: the language of reduction programs.

A program is a sequence of collectives. Each runs over groups of devices that are named by their
place in the machine, not listed. "reduce-scatter node inside" means: in every node, among its
devices. The same program therefore fits two nodes or a thousand, and it can be searched, proved and
read as text. ``parse(str(program)) == program``.

>>> from grammar import instructions, parse
>>> from hierarchies import Digit, Tree
>>> text = "reduce-scatter node inside; all-reduce node parallel(root); all-gather node inside"
>>> program = parse(text)
>>> str(program) == text
True
>>> tree = Tree((Digit("node", 4), Digit("gpu", 8)))
>>> for step in instructions(program, tree):
...     print(step.collective.value, "where digits", step.groups.free, "vary")
reduce-scatter where digits (1,) vary
all-reduce where digits (0,) vary
all-gather where digits (1,) vary
"""

from grammar.collectives.groups import Groups as Groups
from grammar.collectives.groups import Instruction as Instruction
from grammar.collectives.groups import canonicalize as canonicalize
from grammar.collectives.groups import instruction as instruction
from grammar.collectives.groups import instructions as instructions
from grammar.collectives.groups import list_instructions as list_instructions
from grammar.collectives.groups import spell as spell
from grammar.collectives.parser import parse as parse
from grammar.collectives.program import MOST_STEPS as MOST_STEPS
from grammar.collectives.program import ROOT as ROOT
from grammar.collectives.program import Across as Across
from grammar.collectives.program import Collective as Collective
from grammar.collectives.program import Form as Form
from grammar.collectives.program import Goal as Goal
from grammar.collectives.program import InsideGroup as InsideGroup
from grammar.collectives.program import Master as Master
from grammar.collectives.program import Parallel as Parallel
from grammar.collectives.program import Program as Program
from grammar.collectives.program import ProgramInstruction as ProgramInstruction
