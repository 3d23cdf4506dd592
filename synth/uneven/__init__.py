"""Machines that lack devices: programs over explicit groups, proved and priced at their size."""

from synth.uneven.programs import GroupProgram as GroupProgram
from synth.uneven.programs import Survivors as Survivors
from synth.uneven.ranking import UnevenAnswer as UnevenAnswer
from synth.uneven.ranking import UnevenReport as UnevenReport
from synth.uneven.ranking import UnevenRequest as UnevenRequest
from synth.uneven.ranking import uneven_answers as uneven_answers
