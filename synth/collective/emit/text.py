"""The common parts of all emitted Python files: the program by mesh axes, and its header."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from grammar.tensors.sharding import ReductionKind
from hierarchies import Placement
from synth.collective.emit.buffers import BufferHistory, follow_buffers
from synth.collective.emit.conventions import IN_ORDER, torchrun_command
from synth.collective.emit.frameworks import FRAMEWORKS
from synth.collective.emit.mesh import Mesh, RankOrder, find_mesh_axes
from synth.collective.emit.mesh import mesh as mesh_of
from synth.collective.emit.source import (
    EmitSource,
    Files,
    inexpressible_error,
    module_name,
    number_stripe_errors,
)
from synth.collective.semantics.schedule import Exchange, Schedule, Transpose

if TYPE_CHECKING:
    from jinja2 import Environment

_NUMBERING = {
    RankOrder.MACHINE: "device by device, as launchers do by themselves",
    RankOrder.AXES: "by the axes, the last one fastest (the launcher must be told)",
    **{
        RankOrder(name): f"as {framework.title} counts axes (the launcher must be told)"
        for name, framework in FRAMEWORKS.items()
    },
}
_SHOWN = 8
_TOTALS = {ReductionKind.SUM: "sum", ReductionKind.MAX: "maximum", ReductionKind.MIN: "minimum"}
_SUMMED = {
    ReductionKind.SUM: "Sum a tensor",
    ReductionKind.MAX: "The maximum",
    ReductionKind.MIN: "The minimum",
}


@cache
def templates(package: str) -> Environment:
    """Returns a package's templates, without escaping; undefined variables are errors."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # slow to import

    return Environment(
        loader=PackageLoader(package),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )


def python_file(target: str, source: EmitSource, **more: Any) -> Files:
    """Returns ``collsynth_TARGET_STAMP.py``. Raises CannotExpressError for groups not on axes."""
    name, runtime = module_name(target, source.stamp), target.partition("-")[0]
    words = _template_words(source) | {"module": name} | more
    return {f"{name}.py": render_template(f"{runtime}.py.jinja", **words)}


def render_template(template: str, **words: Any) -> str:
    """Renders a template of this package."""
    return templates("synth.collective.emit").get_template(template).render(**words)


def _template_words(source: EmitSource) -> dict[str, Any]:
    schedule, mesh = source.schedule, source.mesh
    reduction, placement = schedule.reduction, source.placement
    axes = [(axis.name, mesh.of_axis(number)) for number, axis in enumerate(placement.axes)]
    summed = {part for name, parts in axes if name in reduction.over for part in parts}
    reduced = tuple(axis.name for axis in mesh.axes if axis.name in summed)
    stripes = _stripes(source)
    phases = [phase for each in source.schedules for phase in each.phases]
    exchanges = [phase for phase in phases if isinstance(phase, Exchange)]
    orders = [step.get("names", ()) for stripe in stripes for step in stripe["steps"]]
    steps = [step for stripe in stripes for step in stripe["steps"]]
    overlapped = len(stripes) > 1 or stripes[0]["segments"] > 1
    return {
        **request_words(schedule),
        "made_by": source.options.made_by,
        "launch": trial_command(placement, source.options.rank_order, overlapped),
        "in_order": IN_ORDER,
        "over": ", ".join(reduction.over),
        "system": source.system,
        "axis_sizes": ", ".join(f"{axis.name}={axis.size}" for axis in placement.axes),
        "placement": str(placement),
        "levels": ", ".join(placement.hierarchy.names),
        "proved": source.proved,
        "payload_bytes": source.payload_bytes,
        "seconds": source.seconds,
        "reached": source.reached,
        "members": reduction.tree.devices,
        **describe_mesh(placement, source.options.rank_order),
        "reduced": _strings(reduced),
        **stripes[0],
        "striped": len(stripes) > 1,
        "stripes": stripes,
        "overlapped": overlapped,
        "ascending": all(_is_ascending(names, mesh) for names in orders),
        "transposes": any("shape" in step for step in steps),
        "in_place": any(not e.collective.in_pieces for e in exchanges),
        "collectives": {exchange.collective.value for exchange in exchanges},
    }


def describe_mesh(placement: Placement, order: RankOrder) -> dict[str, Any]:
    """Returns how ranks are numbered, and the mesh of their coordinates."""
    mesh = mesh_of(placement, order)
    parts = [(axis.name, mesh.of_axis(number)) for number, axis in enumerate(placement.axes)]
    return {
        "numbering": _NUMBERING[order],
        "mesh": [(axis.name, axis.size) for axis in mesh.axes],
        "axes": [(name, _strings(of_axis)) for name, of_axis in parts],
        "world": placement.hierarchy.devices,
    }


def trial_command(placement: Placement, order: RankOrder, overlapped: bool = False) -> str:
    """Returns the command that tries a PyTorch file on this machine, up to the file's name."""
    line = torchrun_command(placement.hierarchy, overlapped)
    ranks = "" if order is RankOrder.MACHINE else f"; ranks are numbered {_NUMBERING[order]}"
    if "--nnodes" not in line:
        return f"Try it{ranks}:\n{line} "
    return f"Try it, on every host (host0 is the first){ranks}:\n{line} \\\n    "


def request_words(schedule: Schedule) -> dict[str, Any]:
    """Returns the goal's names in text, as a function and as a class, and its facts.

    ``sums``: whether it is a sum, which may round; ``total`` names the combination of several
    values.
    """
    goal = schedule.goal
    return {
        "request": goal.value,
        "an": "an" if goal.value[0] in "aeiou" else "a",
        "function": goal.value.replace("-", "_"),
        "kind": "".join(word.capitalize() for word in goal.value.split("-")),
        "reduces": goal.reduces,
        "op": schedule.op.value,
        "total": _TOTALS[schedule.op],
        "summed": _SUMMED[schedule.op],
        "sums": goal.reduces and schedule.op is ReductionKind.SUM,
        "rooted": goal.rooted,
        "in_pieces": schedule.goal.in_pieces,
        "given": schedule.given_pieces,
        "result": schedule.result_pieces,
    }


def _stripes(source: EmitSource) -> list[dict[str, Any]]:
    """Returns template variables of each concurrent program, with its steps by mesh axes."""
    found = []
    for number, stripe in enumerate(source.stripes, 1):
        with number_stripe_errors(source, number):
            steps = _steps(stripe, follow_buffers(stripe.schedule))
        schedule = stripe.schedule
        found.append(
            {
                "number": number,
                "program": [str(step) for step in schedule.program.steps],
                "share": schedule.payload_bytes / source.payload_bytes,
                "size_bytes": schedule.payload_bytes,
                "pieces": schedule.pieces,
                "segments": schedule.segments if schedule.phases else 1,
                "segment_bytes": -(-schedule.payload_bytes // schedule.segments),
                "steps": steps,
            }
        )
    return found


def _steps(source: EmitSource, held: BufferHistory) -> list[dict[str, Any]]:
    first, last = reorder_by_ranks(source)
    return [*first, *_phases(source, held), *last]


def reorder_by_ranks(source: EmitSource) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns steps before and after a schedule that convert pieces between rank and member order.

    In a schedule pieces are in the order of members, outermost level first. Empty if that is
    the same.
    """
    schedule = source.schedule
    shape, axes = _members(source)
    if axes == sorted(axes) or not schedule.phases:
        return [], []
    before = {"shape": shape, "axes": tuple(axes), "comment": "pieces from the order of ranks"}
    after = {
        "shape": tuple(shape[axis] for axis in axes),
        "axes": tuple(axes.index(axis) for axis in range(len(axes))),
        "comment": "pieces to the order of ranks",
    }
    first = [{**before, "only": ()}] if schedule.given_pieces > 1 else []
    return first, [{**after, "only": ()}] if schedule.result_pieces > 1 else []


def _members(source: EmitSource) -> tuple[tuple[int, ...], list[int]]:
    """Returns a reduction group's mesh axis sizes by ranks, and its axes by members, slowest first.

    They differ where ranks are numbered by axes and several of these are on several levels.
    """
    reduction, mesh = source.schedule.reduction, source.mesh
    names = [axis.name for axis in source.placement.axes]
    own = [axis for axis in mesh.axes if names[axis.axis] in reduction.over]
    by_members = sorted(own, key=lambda axis: (axis.level, axis.axis))
    return tuple(axis.size for axis in own), [own.index(axis) for axis in by_members]


def _phases(source: EmitSource, held: BufferHistory) -> list[dict[str, Any]]:
    mesh, schedule = source.mesh, source.schedule
    found: list[dict[str, Any]] = []
    for number, phase in enumerate(schedule.phases):
        if isinstance(phase, Transpose):
            found.append(
                {
                    "shape": phase.shape,
                    "axes": phase.axes,
                    "only": ()
                    if len(phase.devices) == schedule.devices
                    else tuple(sorted(mesh.ranks(phase.devices).tolist())),
                    "comment": "put the pieces in order",
                }
            )
            continue
        read = find_mesh_axes(phase.groups, mesh)
        if read is None:
            raise inexpressible_error(source, number, "its groups are no product of mesh axes")
        over = mesh.named(read.over)
        at_zero = mesh.named(read.at_zero)
        found.append(
            {
                "collective": phase.collective.value,
                "over": _strings(over),
                "at_zero": _strings(at_zero) if at_zero else "",
                "names": over,
                "parts": _parts(phase, held, number),
                "comment": _first_group(phase, source),
            }
        )
    return found


def _parts(phase: Exchange, held: BufferHistory, moment: int) -> int:
    """Returns into how many parts the larger buffer divides the payload; for broadcasts only."""
    if not phase.collective.from_first:
        return 1
    roots = set(held.parts[moment][phase.groups[:, 0]].tolist())
    if len(roots) > 1:
        raise AssertionError(f"a broadcast of buffers of several sizes: {sorted(roots)}")
    return int(roots.pop())


def _first_group(phase: Exchange, source: EmitSource) -> str:
    ranks = source.mesh.ranks(phase.groups[0]).tolist()
    shown = ", ".join(str(rank) for rank in ranks[:_SHOWN])
    more = ", ..." if len(ranks) > _SHOWN else ""
    count, size = phase.groups.shape
    groups = f"1 group of {size}" if count == 1 else f"{count} groups of {size}"
    return f"{groups}, as [{shown}{more}]"


def _is_ascending(names: tuple[str, ...], mesh: Mesh) -> bool:
    """Whether the members of groups over these mesh axes have ascending ranks."""
    order = [axis.name for axis in mesh.axes if axis.name in names]
    return list(names) == order


def _strings(names: tuple[str, ...]) -> str:
    """Returns a tuple of names as Python text, in double quotes."""
    inner = ", ".join(f'"{name}"' for name in names)
    return f"({inner},)" if len(names) == 1 else f"({inner})"
