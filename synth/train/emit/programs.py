"""The planner's programs in an emitted step, where they are more than one collective.

On a machine of several levels the best all-reduce over an axis may be three steps over parts of
it. Such a program, proved and emitted as ``emit`` does, becomes a module beside the step, and the
step calls it in the place of the runtime's own collective. Devices are placed as frameworks do by
themselves, so ranks need no other order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from grammar.tensors.sharding import Kind, Type
from hierarchies import Axis, InputError, Placement, System
from hierarchies.placement import row_major
from synth.emit import CannotExpressError, Options, RankOrder, Source, emit
from synth.plan.library import Library
from synth.plan.planner import answers
from synth.plan.request import Request
from synth.semantics.lowering import lower
from synth.train.plans import Plan
from synth.train.resharding import Move, Path
from synth.train.resharding.requests import Communication, Rearrangement, communications
from synth.verify.symbolic import Proved

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
    options: Options
    modules: dict[str, str] = field(default_factory=dict)
    names: dict[tuple[str, str], str] = field(default_factory=dict)
    libraries: dict[str, Library] = field(default_factory=dict)

    def call(self, text: str, move: Move, value: Type) -> str | None:
        """The call that carries a move out; None where the runtime's own collective does.

        That is: nothing is sent, or whole parts from device to device; the best program is one
        step; it reduces otherwise than by a sum, as emitted files add up; or the runtime has no
        way to say it.
        """
        path = Path(move.before, move.after, (move,))
        found = communications(path, value, self.placement, RankOrder.AXES)
        if not found or not isinstance(found[0].request, Request) or value.dtype == "bool":
            return None
        [one] = found
        name = self._module(one) if one.kind is Kind.SUM else None
        if name is None:
            return None
        function = move.how.value.replace("-", "_")
        given, got = map(_spelled, (one.given, one.got))
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
        over = "_".join((goal.value.replace("-", "_"), *one.request.over))
        key = (over, str(stripe.part.program))
        if key not in self.names:
            schedule = lower(
                stripe.part.derivation, best.candidate.reduction, stripe.part.size_bytes, 1
            )
            source = Source(schedule, self.system, stripe.prices, stripe.verdict, self.options)
            try:
                [made] = emit(_TARGETS[self.runtime], source).values()
            except CannotExpressError:
                return None
            before = sum(known == over for known, _ in self.names)
            self.names[key] = f"{over}_{before + 1}" if before else over
            self.modules[self.names[key]] = str(made)
        return self.names[key]

    @property
    def texts(self) -> dict[str, str]:
        """The programs by the names of their modules."""
        return {name: program for (_, program), name in self.names.items()}


def programs_for(runtime: str, system: System, plan: Plan, made_by: str) -> Programs:
    """No program yet, on a machine. Raises InputError for axes that frameworks do not lay on it."""
    axes = tuple(Axis(*one) for one in plan.axes)
    placement = row_major(system.hierarchy, axes)
    if placement is None:
        problem = f"{', '.join(map(str, axes))} do not lie on {system.hierarchy} in their order"
        raise InputError(problem, where="--plan", hint="give axes that divide its levels")
    options = Options(rank_order=RankOrder.AXES, made_by=made_by)
    return Programs(runtime, system, placement, options)


def _spelled(one: Rearrangement) -> str:
    return str((one.shape, one.order, one.result))
