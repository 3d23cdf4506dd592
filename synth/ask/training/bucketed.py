"""The verb for who runs DDP and plans nothing else: which buckets of gradients end a step first?"""

from __future__ import annotations

from importlib.metadata import version
from math import gcd
from typing import Annotated

from pydantic import Field

from grammar.tensors.parser import parse_step
from hierarchies import Axis, InputError, System, placements
from synth.ask.answers.training.bucketed import BucketsReply
from synth.ask.questions.fields import Flag
from synth.ask.questions.named_texts import NamedText
from synth.ask.questions.question import MachineQuestion
from synth.ask.reply import Reply, reply
from synth.ask.training.machines import Accelerator, accelerator_of
from synth.ask.training.simulated import size_of
from synth.ask.training.traces import SHAPE, ModelQuestion
from synth.collective.ranking.request import Watcher
from synth.step.bucketing import AXIS, build_replica, compare_policies
from synth.step.bucketing import write_script as script_of


class BucketsQuestion(ModelQuestion, MachineQuestion):
    """Find the buckets of gradients with which DDP is fastest; -o for two lines in its script."""

    batch: Annotated[int, SHAPE, Field(ge=1), Flag("Samples per step, over all devices")] = 256
    device: Accelerator = None

    def checked(self) -> System:
        """The machine. Raises InputError for one of one device, and one that is not even."""
        system = self.machine().check_even()
        if system.devices < 2:
            raise InputError(f"{system.name} has one device", where="SYSTEM", hint="two or more")
        return system

    def check_batch(self, samples: int, devices: int) -> None:
        """Raises InputError where not every device has as many samples."""
        if samples % devices:
            alike = devices * max(1, round(samples / devices))
            kept = isinstance(self.model, NamedText)
            hint = f"as many for each: {'trace it with ' if kept else ''}--batch {alike}"
            where = "MODEL" if kept else "--batch"
            raise InputError(f"{samples} samples for {devices} devices", where=where, hint=hint)


def find_buckets(question: BucketsQuestion, watcher: Watcher) -> Reply:
    """The model on all devices of a machine, each a replica, and buckets beside DDP's own."""
    system = question.checked()
    device = accelerator_of(system, question.device)
    step = question.read(parse_step, gcd(question.batch, system.devices))
    samples, _ = size_of(step)
    question.check_batch(samples, system.devices)
    [placement] = placements(system.hierarchy, (Axis(AXIS, system.devices),))
    found = compare_policies(build_replica(step, system, placement, device))
    script = script_of(found, step.name, f"collsynth {version('collsynth')}")
    return reply(BucketsReply.of(step.name, samples, found, device.name, script))
