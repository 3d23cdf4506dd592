"""Machines that lack devices: programs over explicit groups, proved and priced at their size."""

from synth.degraded.programs import GroupProgram as GroupProgram
from synth.degraded.programs import Survivors as Survivors
from synth.degraded.ranking import UnevenAnswer as UnevenAnswer
from synth.degraded.ranking import UnevenReport as UnevenReport
from synth.degraded.ranking import UnevenRequest as UnevenRequest
from synth.degraded.ranking import uneven_answers as uneven_answers
