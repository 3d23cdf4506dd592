"""What all emitted Python files have in common: the program by mesh axes, and its header."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from synth.emit.buffers import Buffers, buffers
from synth.emit.mesh import Mesh, RankOrder, among
from synth.emit.source import Files, Source, cannot, in_stripe
from synth.semantics.schedule import Exchange, Transpose

_NUMBERING = {
    RankOrder.MACHINE: "device by device, as launchers do by themselves",
    RankOrder.AXES: "by the axes, the last one fastest (the launcher must be told)",
}
_SHOWN = 8


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("synth.emit"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )


def python_file(runtime: str, source: Source, **more: Any) -> Files:
    """``collsynth_RUNTIME.py``. Raises CannotExpressError for groups no mesh axes can give."""
    template = _templates().get_template(f"{runtime}.py.jinja")
    return {f"collsynth_{runtime}.py": template.render(**_words(source), **more)}


def _words(source: Source) -> dict[str, Any]:
    schedule, mesh = source.schedule, source.mesh
    reduction, placement = schedule.reduction, source.placement
    axes = [(axis.name, mesh.of_axis(number)) for number, axis in enumerate(placement.axes)]
    summed = {part for name, parts in axes if name in reduction.over for part in parts}
    reduced = tuple(axis.name for axis in mesh.axes if axis.name in summed)
    stripes = _stripes(source)
    phases = [phase for one in source.schedules for phase in one.phases]
    exchanges = [phase for phase in phases if isinstance(phase, Exchange)]
    orders = [step.get("names", ()) for stripe in stripes for step in stripe["steps"]]
    return {
        "made_by": source.options.made_by,
        "over": ", ".join(reduction.over),
        "system": source.system,
        "axis_sizes": ", ".join(f"{axis.name}={axis.size}" for axis in placement.axes),
        "placement": str(placement),
        "levels": ", ".join(placement.hierarchy.names),
        "proved": source.proved,
        "payload_bytes": source.payload_bytes,
        "seconds": source.seconds,
        "world": schedule.devices,
        "members": reduction.tree.devices,
        "numbering": _NUMBERING[source.options.rank_order],
        "mesh": [(axis.name, axis.size) for axis in mesh.axes],
        "axes": [(name, _strings(parts)) for name, parts in axes],
        "reduced": _strings(reduced),
        **stripes[0],
        "striped": len(stripes) > 1,
        "stripes": stripes,
        "overlapped": len(stripes) > 1 or stripes[0]["segments"] > 1,
        "ascending": all(_ascending(names, mesh) for names in orders),
        "transposes": len(exchanges) < len(phases),
        "collectives": {exchange.collective.value for exchange in exchanges},
    }


def _stripes(source: Source) -> list[dict[str, Any]]:
    """What is said of each program that runs side by side, its steps given by mesh axes."""
    found = []
    for number, stripe in enumerate(source.stripes, 1):
        with in_stripe(source, number):
            steps = _steps(stripe, buffers(stripe.schedule))
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


def _steps(source: Source, held: Buffers) -> list[dict[str, Any]]:
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
        read = among(phase.groups, mesh)
        if read is None:
            raise cannot(source, number, "its groups are no product of mesh axes")
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


def _parts(phase: Exchange, held: Buffers, moment: int) -> int:
    """By how much the payload is divided in a member's larger buffer; only a broadcast asks."""
    if not phase.collective.from_first:
        return 1
    roots = set(held.parts[moment][phase.groups[:, 0]].tolist())
    if len(roots) > 1:
        raise AssertionError(f"a broadcast of buffers of several sizes: {sorted(roots)}")
    return int(roots.pop())


def _first_group(phase: Exchange, source: Source) -> str:
    ranks = source.mesh.ranks(phase.groups[0]).tolist()
    shown = ", ".join(str(rank) for rank in ranks[:_SHOWN])
    more = ", ..." if len(ranks) > _SHOWN else ""
    count, size = phase.groups.shape
    groups = f"1 group of {size}" if count == 1 else f"{count} groups of {size}"
    return f"{groups}, as [{shown}{more}]"


def _ascending(names: tuple[str, ...], mesh: Mesh) -> bool:
    """Whether the members of groups over these mesh axes have ascending ranks."""
    order = [axis.name for axis in mesh.axes if axis.name in names]
    return list(names) == order


def _strings(names: tuple[str, ...]) -> str:
    """A tuple of names as Python text, in double quotes."""
    inner = ", ".join(f'"{name}"' for name in names)
    return f"({inner},)" if len(names) == 1 else f"({inner})"
