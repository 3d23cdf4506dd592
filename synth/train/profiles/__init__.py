"""Seconds of a plan's local work as measured here: equal blocks once, composed for the simulation.

``events`` cuts a program in blocks of operations between which nothing is sent, and gives those
that are equal one event, whose text is that of the written file; ``measured`` runs all of them
in turns in processes of their own, beside a reference; ``known`` says what such a profile has of a
program, and gives every operation its share. Communication is not measured here: the planner and
its calibration price it.

Two operations with nothing sent between them are one event, and here it is written for PyTorch:

>>> from grammar.tensors.parser import parse_step
>>> from synth.train.plans import apply, parse_recipe, plan_of
>>> from synth.train.profiles import events
>>> text = "step two\\nin x: f32[8] batch\\na: f32[8] = tanh(x)\\nb: f32[8] = neg(a)\\nout b"
>>> step = parse_step(text)
>>> plan = plan_of(step, parse_recipe("data=2; batch over data"))
>>> [(_, event)] = events("torch", step, apply(step, plan), plan.parts)
>>> event.operations, [str(one) for one in event.inputs]
(2, ['f32[4]'])
"""

from synth.train.profiles.blocks import Block, blocks
from synth.train.profiles.composed import Kinds, Known, composed, known
from synth.train.profiles.events import Event, events
from synth.train.profiles.profile import (
    MOST_DRIFT,
    Measured,
    Profile,
    check_dtype,
    check_machine,
    drift_of,
    profile_text,
    read_profile,
)
from synth.train.profiles.trial import Trial, measured

__all__ = [
    "MOST_DRIFT",
    "Block",
    "Event",
    "Kinds",
    "Known",
    "Measured",
    "Profile",
    "Trial",
    "blocks",
    "check_dtype",
    "check_machine",
    "composed",
    "drift_of",
    "events",
    "known",
    "measured",
    "profile_text",
    "read_profile",
]
