"""Machines that lack devices: programs over explicit groups, proved and priced at their size.

Without one of its GPUs, a machine's levels have no factors: a node of seven and nodes of eight form
no grid, so the language of slices does not apply. Programs then list groups of ranks, in two
families (level by level, and through the largest even machine inside); z3 proves them at this size
only, and prices examine every link.

>>> from dataclasses import replace
>>> from hierarchies import parse_fault, load
>>> from synth.collective.degraded import Survivors
>>> from synth.collective.degraded.programs import level_programs
>>> system = load("dgx-h100:2")
>>> survivors = Survivors(replace(system, faults=(parse_fault("node1/gpu5", system.hierarchy),)))
>>> survivors.count
15
>>> for program in list(level_programs(survivors))[:3]:
...     print(program.text)
all-reduce among 15
reduce among 15; broadcast among 15
reduce-scatter among 15; all-gather among 15
"""

from synth.collective.degraded.programs import GroupProgram as GroupProgram
from synth.collective.degraded.programs import Survivors as Survivors
from synth.collective.degraded.ranking import UnevenAnswer as UnevenAnswer
from synth.collective.degraded.ranking import UnevenReport as UnevenReport
from synth.collective.degraded.ranking import uneven_answers as uneven_answers
