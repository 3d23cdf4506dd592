"""WHAT CAN BE SAID: the language of reduction programs."""

from grammar.collectives.groups import Groups as Groups
from grammar.collectives.groups import Instruction as Instruction
from grammar.collectives.groups import admitted as admitted
from grammar.collectives.groups import canonical as canonical
from grammar.collectives.groups import instruction as instruction
from grammar.collectives.groups import instructions as instructions
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
from grammar.collectives.program import Step as Step
from grammar.collectives.program import at_once as at_once
