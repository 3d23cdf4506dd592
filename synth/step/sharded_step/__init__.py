"""Sharded steps: what a plan makes of a step, as every device does it, and what that sends.

A station of its own, as text (``grammar.tensors``): ``sharded_step`` writes down the program of a
plan, ``check`` judges one that anybody wrote, ``on_one_device`` is what a device computes of it
and ``redistributed`` what it sends.

>>> from grammar.tensors.parser import parse_sharded
>>> from synth.step.sharded_step import check, on_one_device, redistributed
>>> from synth.step.work import work_of
>>> sharded = parse_sharded('''
... step product over data=2 model=4
... in w: f32[16@model,4] parameter
... in x: f32[8@data,16@model] batch
... v0: f32[8@data,4]{sum:model} = dot_general(x, w) dimension_numbers=(((1),(0)),((),()))
... v1: f32[8@data,4] = redistribute(v0) by=all-reduce over=(model)
... out v1
... ''')
>>> check(sharded)
>>> work_of(on_one_device(sharded))[0].flops == 2 * 8 * 4 * 16 / 8
True
>>> [(str(one.move), one.times) for one in redistributed(sharded)]
[('all-reduce (sum) over model', 1)]
"""

from synth.step.sharded_step.checking import check, check_known
from synth.step.sharded_step.costs import (
    Asked,
    Held,
    Share,
    alone,
    asked,
    local_moves,
    shares,
)
from synth.step.sharded_step.device import of_stages, on_one_device, unsharded
from synth.step.sharded_step.meanings import Meaning, gradients
from synth.step.sharded_step.redistributed import (
    Redistributed,
    Transfer,
    redistributed,
    transfers,
)
from synth.step.sharded_step.writing import sharded_step

__all__ = [
    "Asked",
    "Held",
    "Meaning",
    "Redistributed",
    "Share",
    "Transfer",
    "alone",
    "asked",
    "check",
    "check_known",
    "gradients",
    "local_moves",
    "of_stages",
    "on_one_device",
    "redistributed",
    "sharded_step",
    "shares",
    "transfers",
    "unsharded",
]
