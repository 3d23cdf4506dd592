"""The verb that shards a training step: by a plan, on axes, on a machine if there is one."""

from __future__ import annotations

from collections.abc import Mapping

from grammar.tensors.operations import ShardedStep, Step
from grammar.tensors.parser import parse_either
from hierarchies import InputError
from synth.ask.answers.training.shards import ShardReply, TargetMachine
from synth.ask.reply import Reply, reply
from synth.ask.training.machines import StepOnMachineQuestion
from synth.ask.training.plans import check_axes
from synth.collective.ranking.oracle import ProgramPrices
from synth.collective.ranking.request import Watcher
from synth.step.redistribution.seconds import NetworkPrices
from synth.step.sharded_step import check, write_sharded_step
from synth.step.sharded_step.machine import choose_fastest_paths
from synth.step.sharding.plan import TIME


class ShardQuestion(StepOnMachineQuestion):
    """Shard a training step by a plan: its types, what it sends, bytes and operations a device."""

    def check_sharded(self) -> None:
        """Raises InputError for what is said beside a step that is sharded already."""
        for flag, value in (("--plan", self.plan), ("--axes", self.axes)):
            if value is not None:
                hint = "it says its axes and how all values lie: change its text"
                raise InputError("this step is sharded already", where=flag, hint=hint)


def shard(question: ShardQuestion, watcher: Watcher) -> Reply:
    """A step cut by a plan; or one that was sharded before, which is checked."""
    given = question.read(parse_either)
    if isinstance(given, ShardedStep):
        question.check_sharded()
        axes = {axis: size for axis, size in given.axes if axis != TIME}
        check_axes(axes)
        check(given)
        machine = _machine(question, axes)
        return reply(ShardReply.of(given, None, machine))
    return _shard_by_plan(question, given)


def _shard_by_plan(question: ShardQuestion, step: Step) -> Reply:
    """By its plan, with the redistributions that are fastest on the machine."""
    found = question.planned(step)
    program, machine = found.program, _machine(question, dict(found.plan.axes))
    if machine is not None:
        program = choose_fastest_paths(program, machine.network)
    sharded = write_sharded_step(found.step, found.plan, program)
    return reply(ShardReply.of(sharded, found.text, machine))


def _machine(question: ShardQuestion, axes: Mapping[str, int]) -> TargetMachine | None:
    """Where it runs, with what redistributes there."""
    found = question.placed(axes)
    if found is None:
        return None
    system, placement, by_framework = found
    return TargetMachine(NetworkPrices(ProgramPrices(system), placement, without=()), by_framework)
