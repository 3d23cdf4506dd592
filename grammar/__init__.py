"""WHAT CAN BE SAID: the language of reduction programs."""

from grammar.groups import Groups as Groups
from grammar.groups import Instruction as Instruction
from grammar.groups import admitted as admitted
from grammar.groups import canonical as canonical
from grammar.groups import instruction as instruction
from grammar.groups import instructions as instructions
from grammar.groups import spell as spell
from grammar.parser import parse as parse
from grammar.program import ALL_AT_ONCE as ALL_AT_ONCE
from grammar.program import MOST_STEPS as MOST_STEPS
from grammar.program import ROOT as ROOT
from grammar.program import Across as Across
from grammar.program import Collective as Collective
from grammar.program import Form as Form
from grammar.program import Goal as Goal
from grammar.program import InsideGroup as InsideGroup
from grammar.program import Master as Master
from grammar.program import Parallel as Parallel
from grammar.program import Program as Program
from grammar.program import Step as Step
from grammar.program import at_once as at_once
