"""Programs of several collectives that replace a runtime's own collective in an emitted step.

On a machine of several levels the best all-reduce over an axis may be three instructions over parts
of the axis. Such a program, proved and emitted as ``emit`` does, becomes a module next to the step,
which calls it instead of the runtime's own collective. Ranks count along the axes of the plan. If
the axes are placed as frameworks do by default, launchers number devices in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from grammar.tensors.sharding import ReductionKind, Type
from hierarchies import Placement, System
from synth.collective.emit.mesh import RankOrder, mesh
from synth.collective.emit.source import CannotExpressError, EmitOptions, EmitSource
from synth.collective.emit.targets import emit
from synth.collective.ranking.library import Library
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Request
from synth.collective.semantics.lowering import lower
from synth.collective.verify.symbolic import Proved
from synth.step.redistribution import RedistributionPath, ShardingMove
from synth.step.redistribution.requests import Communication, Rearrangement, list_communications
from synth.step.sharding.microbatches import to_microbatch

_TARGETS = {"torch": "torch", "jax": "jax-flat"}
"""Targets that programs are emitted for.

JAX uses the target for any mesh, because the mesh of a step has one axis per axis of the plan, over
any number of levels.
"""


@dataclass
class Programs:
    """The programs of a step so far. ``modules``: by their names.

    ``names``: the name of a module, by request and program.
    """

    runtime: str
    system: System
    placement: Placement
    options: EmitOptions
    parts: Mapping[str, int]
    modules: dict[str, str] = field(default_factory=dict)
    names: dict[tuple[str, str], str] = field(default_factory=dict)
    libraries: dict[str, Library] = field(default_factory=dict)

    def call(self, text: str, move: ShardingMove, value: Type) -> str | None:
        """Returns the call that executes a move, or None to use the runtime's own collective.

        None is returned if nothing is sent, or whole parts go from device to device; if the best
        program is a single instruction; and if the runtime cannot express the program.
        """
        microbatch = to_microbatch(move, value, self.parts)
        if microbatch is None:
            return None
        move, value = microbatch
        path = RedistributionPath(move.before, move.after, (move,))
        communications = list_communications(path, value, self.placement, RankOrder.AXES)
        if (
            not communications
            or not isinstance(communications[0].request, Request)
            or value.dtype == "bool"
        ):
            return None
        [communication] = communications
        name = self._module(communication)
        if name is None:
            return None
        function = move.how.value.replace("-", "_")
        given, got = map(_spell_rearrangement, (communication.given, communication.got))
        return f"by_program({name}.{function}, {text}, {given}, {got})"

    def _module(self, communication: Communication) -> str | None:
        assert isinstance(communication.request, Request)
        goal = communication.request.goal
        library = self.libraries.setdefault(goal.value, Library(communication.request.language))
        request = replace(communication.request, k=1, segments=(1,), stripes=False)
        [best] = answers(self.system, request, library=library).answers
        [stripe] = best.stripes
        instructions = stripe.part.program.steps
        if len(instructions) < 2 or not isinstance(stripe.verdict, Proved):
            return None
        op = () if communication.kind is ReductionKind.SUM else (communication.kind.value,)
        over = "_".join((goal.value.replace("-", "_"), *op, *communication.request.over))
        key = (over, str(stripe.part.program))
        if key not in self.names:
            schedule = lower(
                stripe.part.derivation, best.candidate.reduction, stripe.part.size_bytes, 1
            )
            schedule = replace(schedule, op=communication.kind)
            source = EmitSource(schedule, self.system, stripe.prices, stripe.verdict, self.options)
            try:
                [module] = emit(_TARGETS[self.runtime], source).values()
            except CannotExpressError:
                return None
            before = sum(known == over for known, _ in self.names)
            self.names[key] = f"{over}_{before + 1}" if before else over
            self.modules[self.names[key]] = str(module)
        return self.names[key]

    @property
    def reordered(self) -> bool:
        """Whether the ranks of the step number devices in a different order than the machine."""
        devices = mesh(self.placement, RankOrder.AXES).devices.tolist()
        return bool(devices != sorted(devices))

    @property
    def texts(self) -> dict[str, str]:
        """The programs, by the names of their modules."""
        return {name: program for (_, program), name in self.names.items()}


def programs_for(
    runtime: str, system: System, placement: Placement, parts: Mapping[str, int], made_by: str
) -> Programs:
    """Returns an empty set of programs on a placement of a plan's axes; ``parts`` includes time."""
    options = EmitOptions(rank_order=RankOrder.AXES, made_by=made_by)
    return Programs(runtime, system, placement, options, parts)


def _spell_rearrangement(rearrangement: Rearrangement) -> str:
    return str((rearrangement.shape, rearrangement.order, rearrangement.result))
