"""The verb for who runs DDP and plans nothing else: which buckets of gradients end a step first?"""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

from pydantic import Field

from hierarchies import Axis, InputError, placements
from synth.plan.request import Watcher
from synth.train.bucketing import AXIS, compared, replica
from synth.train.bucketing import script as script_of
from synth.verbs.answers.training.bucketed import BucketsReply
from synth.verbs.questions.fields import Flag
from synth.verbs.questions.named_texts import NamedText
from synth.verbs.questions.question import MachineQuestion
from synth.verbs.reply import Reply, reply
from synth.verbs.training.machines import Accelerator, accelerator_of
from synth.verbs.training.simulated import size_of
from synth.verbs.training.traces import SHAPE, ModelQuestion


class BucketsQuestion(ModelQuestion, MachineQuestion):
    """Find the buckets of gradients with which DDP is fastest; -o for two lines in its script."""

    batch: Annotated[int, SHAPE, Field(ge=1), Flag("Samples in a step, of all devices")] = 256
    device: Accelerator = None


def bucketed(question: BucketsQuestion, watcher: Watcher) -> Reply:
    """The model on all devices of a machine, each a replica, and buckets beside DDP's own."""
    system = question.machine().check_even()
    if system.devices < 2:
        raise InputError(f"{system.name} has one device", where="SYSTEM", hint="two or more")
    device = accelerator_of(system, question.device)
    step = question.step()
    samples, _ = size_of(step)
    if samples % system.devices:
        problem = f"{samples} samples for {system.devices} devices"
        alike = system.devices * max(1, round(samples / system.devices))
        kept = isinstance(question.model, NamedText)
        hint = f"as many for each: {'trace it with ' if kept else ''}--batch {alike}"
        raise InputError(problem, where="MODEL" if kept else "--batch", hint=hint)
    [placement] = placements(system.hierarchy, (Axis(AXIS, system.devices),))
    found = compared(replica(step, system, placement, device))
    script = script_of(found, step.name, f"collsynth {version('collsynth')}")
    return reply(BucketsReply.of(step.name, samples, found, device.name, script))
