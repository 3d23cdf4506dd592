"""Sharded steps: the program of a plan as text that every device runs.

The text has its own language (``grammar.tensors``): ``write_sharded_step`` writes the program of a
plan, ``check`` checks a program from any source, ``to_device_step`` returns the operations of one
device, and ``list_step_moves`` its communication.

>>> from grammar.tensors.parser import parse_sharded
>>> from synth.step.sharded_step import check, to_device_step, list_step_moves
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
>>> work_of(to_device_step(sharded))[0].flops == 2 * 8 * 4 * 16 / 8
True
>>> [(str(moved.move), moved.times) for moved in list_step_moves(sharded)]
[('all-reduce (sum) over model', 1)]
"""

from synth.step.sharded_step.checking import check as check
from synth.step.sharded_step.checking import check_known as check_known
from synth.step.sharded_step.costs import StepRequest as StepRequest
from synth.step.sharded_step.costs import list_shares as list_shares
from synth.step.sharded_step.costs import list_step_requests as list_step_requests
from synth.step.sharded_step.costs import local_moves as local_moves
from synth.step.sharded_step.costs import unsharded_share as unsharded_share
from synth.step.sharded_step.device import split_stages as split_stages
from synth.step.sharded_step.device import to_device_step as to_device_step
from synth.step.sharded_step.device import unshard as unshard
from synth.step.sharded_step.meanings import find_gradients as find_gradients
from synth.step.sharded_step.redistributed import PipelineTransfer as PipelineTransfer
from synth.step.sharded_step.redistributed import StepMove as StepMove
from synth.step.sharded_step.redistributed import list_step_moves as list_step_moves
from synth.step.sharded_step.redistributed import list_transfers as list_transfers
from synth.step.sharded_step.writing import write_sharded_step as write_sharded_step
