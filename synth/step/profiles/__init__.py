"""Measured seconds of a plan's local work: equal blocks once, composed for the simulation.

``list_events`` cuts a program into blocks of operations without communication. Equal blocks share
one event, whose text is part of the emitted file. ``measure_events`` runs all events in turn, in
separate processes, together with a reference. ``known`` looks up a program in the profile and
gives every operation its share. Communication is not measured: the planner and its calibration
price it.

Two operations without communication between them are one event, here for PyTorch:

>>> from grammar.tensors.parser import parse_step
>>> from synth.step.sharding import apply, parse_recipe, plan_of
>>> from synth.step.profiles import list_events
>>> text = "step two\\nin x: f32[8] batch\\na: f32[8] = tanh(x)\\nb: f32[8] = neg(a)\\nout b"
>>> step = parse_step(text)
>>> plan = plan_of(step, parse_recipe("data=2; batch over data"))
>>> [(_, event)] = list_events("torch", step, apply(step, plan), plan.parts)
>>> event.operations, [str(kind) for kind in event.inputs]
(2, ['f32[4]'])
"""

from synth.step.profiles.blocks import OperationBlock as OperationBlock
from synth.step.profiles.blocks import split_blocks as split_blocks
from synth.step.profiles.composed import Kinds as Kinds
from synth.step.profiles.composed import Known as Known
from synth.step.profiles.composed import compose_seconds as compose_seconds
from synth.step.profiles.composed import known as known
from synth.step.profiles.events import ProfileEvent as ProfileEvent
from synth.step.profiles.events import list_events as list_events
from synth.step.profiles.profile import MOST_DRIFT as MOST_DRIFT
from synth.step.profiles.profile import MeasuredEvent as MeasuredEvent
from synth.step.profiles.profile import Profile as Profile
from synth.step.profiles.profile import check_dtype as check_dtype
from synth.step.profiles.profile import check_machine as check_machine
from synth.step.profiles.profile import drift_of as drift_of
from synth.step.profiles.profile import profile_text as profile_text
from synth.step.profiles.profile import read_profile as read_profile
from synth.step.profiles.trial import ProfileTrial as ProfileTrial
from synth.step.profiles.trial import measure_events as measure_events
