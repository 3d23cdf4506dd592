"""The planner's programs in an emitted step, where they are more than one collective.

On a machine of several levels the best all-reduce over an axis may be three steps over parts of
it. Such a program, proved and emitted as ``emit`` does, becomes a module beside the step, and the
step calls it in the place of the runtime's own collective. Ranks count along the axes of the plan:
where these are placed as frameworks do by themselves, launchers number devices just so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from grammar.tensors.sharding import ReductionKind, Type
from hierarchies import Placement, System
from synth.collective.emit import CannotExpressError, EmitOptions, EmitSource, RankOrder, emit
from synth.collective.emit.mesh import mesh
from synth.collective.ranking.library import Library
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Request
from synth.collective.semantics.lowering import lower
from synth.collective.verify.symbolic import Proved
from synth.step.redistribution import RedistributionPath, ShardingMove
from synth.step.redistribution.requests import Communication, Rearrangement, list_communications
from synth.step.sharding.microbatches import to_microbatch

_TARGETS = {"torch": "torch", "jax": "jax-flat"}
"""What programs are emitted as: in JAX for any mesh, as that of a step has an axis for each of the
plan's, however many levels these are on."""


@dataclass
class Programs:
    """The programs of a step so far: by its name the module of each.

    ``names`` are by what is asked for and the program.
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
        """The call that carries a move out; None where the runtime's own collective does.

        That is: nothing is sent, or whole parts from device to device; the best program is one
        step; or the runtime has no way to say it.
        """
        inside = to_microbatch(move, value, self.parts)
        if inside is None:
            return None
        move, value = inside
        path = RedistributionPath(move.before, move.after, (move,))
        found = list_communications(path, value, self.placement, RankOrder.AXES)
        if not found or not isinstance(found[0].request, Request) or value.dtype == "bool":
            return None
        [one] = found
        name = self._module(one)
        if name is None:
            return None
        function = move.how.value.replace("-", "_")
        given, got = map(_spell_rearrangement, (one.given, one.got))
        return f"by_program({name}.{function}, {text}, {given}, {got})"

    def _module(self, one: Communication) -> str | None:
        assert isinstance(one.request, Request)
        goal = one.request.goal
        library = self.libraries.setdefault(goal.value, Library(one.request.language))
        asked = replace(one.request, k=1, segments=(1,), stripes=False)
        [best] = answers(self.system, asked, library=library).answers
        [stripe] = best.stripes
        steps = stripe.part.program.steps
        if len(steps) < 2 or not isinstance(stripe.verdict, Proved):
            return None
        op = () if one.kind is ReductionKind.SUM else (one.kind.value,)
        over = "_".join((goal.value.replace("-", "_"), *op, *one.request.over))
        key = (over, str(stripe.part.program))
        if key not in self.names:
            schedule = lower(
                stripe.part.derivation, best.candidate.reduction, stripe.part.size_bytes, 1
            )
            schedule = replace(schedule, op=one.kind)
            source = EmitSource(schedule, self.system, stripe.prices, stripe.verdict, self.options)
            try:
                [made] = emit(_TARGETS[self.runtime], source).values()
            except CannotExpressError:
                return None
            before = sum(known == over for known, _ in self.names)
            self.names[key] = f"{over}_{before + 1}" if before else over
            self.modules[self.names[key]] = str(made)
        return self.names[key]

    @property
    def reordered(self) -> bool:
        """Whether the ranks of the step do not count devices one by one."""
        devices = mesh(self.placement, RankOrder.AXES).devices.tolist()
        return bool(devices != sorted(devices))

    @property
    def texts(self) -> dict[str, str]:
        """The programs by the names of their modules."""
        return {name: program for (_, program), name in self.names.items()}


def programs_for(
    runtime: str, system: System, placement: Placement, parts: Mapping[str, int], made_by: str
) -> Programs:
    """No program yet, on a machine where the axes of a plan lie so; ``parts`` has time, too."""
    options = EmitOptions(rank_order=RankOrder.AXES, made_by=made_by)
    return Programs(runtime, system, placement, options, parts)


def _spell_rearrangement(one: Rearrangement) -> str:
    return str((one.shape, one.order, one.result))
