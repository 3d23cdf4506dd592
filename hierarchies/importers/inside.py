"""Puts a system inside the units of an imported network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hierarchies.errors import InputError
from hierarchies.files.schema import MachineException
from hierarchies.importers.claims import Claim, NumberRange, settle
from hierarchies.importers.draft import Draft, DraftLevel, StatedValue, draft_level_of
from hierarchies.importers.models import claims_of_device
from hierarchies.importers.writing import scale_to_unit
from hierarchies.system import System

_COMPARED = ("domain", "bandwidth_GB_per_s", "ports")
"""Values of the level of nodes that both a network and the system inside it may state."""


def wrap_network(draft: Draft, inner: System) -> Draft:
    """Return the network of a draft around nodes that ``inner`` describes.

    The innermost level of the draft (the nodes of one switch) and the outermost of ``inner`` (its
    nodes) become one level. Its count is from the draft; ``inner`` fills in its blanks. If the
    units of ``inner`` are racks, they replace the blocks of the draft's nodes.

    Raises InputError for a draft of devices, and if ``inner`` has more or fewer devices in a unit
    than the draft.
    """
    networks = [each for each in (draft, draft.wider) if each and not each.holds_devices]
    if not networks:
        raise InputError(
            "--inside describes nodes, and this file describes devices already",
            hint="remove --inside",
        )
    fitting = [net for net in networks if net.contents is None or net.contents.agrees(inner)]
    return _merge_draft((fitting or networks)[0], inner)


def _merge_draft(draft: Draft, inner: System) -> Draft:
    claims = tuple(_claims(draft, inner))
    unit = draft.contents.unit if draft.contents else "node"
    conflicts = settle(claims, f"give a system whose {unit} has the devices of this file's")
    node, *inside = [draft_level_of(inner, position) for position in range(len(inner.links))]
    border = draft.levels[-1]
    stated = {key for key, entry in border.entries().items() if isinstance(entry, StatedValue)}
    inner_entries = {key: e for key, e in node.entries().items() if key not in {"count", *stated}}
    medium = border.medium or node.medium
    merged = replace(border.having(inner_entries), through=node.through, medium=medium)
    inner_names = {level.name for level in inside}
    clashes = [level.name for level in draft.levels if level.name in inner_names]
    if clashes:
        raise InputError(
            f"level {clashes[0]!r} is in the network and inside the node",
            hint="rename it in one of the two files",
        )
    outside = [
        replace(level, through=_crossed_inner_levels(level, node))
        if border.name in level.through
        else level
        for level in draft.levels[:-1]
    ]
    lacks, notes = _lacks(draft, inner)
    unconfirmed = "memory_GB_per_s" in inner.unconfirmed
    return replace(
        draft,
        levels=(*outside, merged, *inside),
        device=inner.device,
        memory_bytes_per_second=StatedValue(
            inner.memory_bytes_per_second, inner.memory_source or inner.name, unconfirmed
        ),
        notes=(*(note for note in draft.notes if note != draft.advice), *notes),
        warnings=(*conflicts, *draft.warnings),
        lacks=lacks,
        contents=None,
        holds_devices=True,
        wider=None,
    )


def _claims(draft: Draft, inner: System) -> Iterator[Claim]:
    """Yield the claims of the draft and of the system about the same quantities."""
    place = f"--inside {inner.name}"
    if draft.contents is not None:
        yield from draft.contents.claims(inner)
    device = next(claims_of_device(inner.device, place), None)
    for model in draft.models:
        yield from claims_of_device(model, draft.title.partition(":")[0])
        if device is not None:
            yield device
    border, node = draft.levels[-1], draft_level_of(inner, 0)
    for key in _COMPARED:
        outer_entry, inner_entry = border.entries().get(key), node.entries().get(key)
        if isinstance(outer_entry, StatedValue) and isinstance(inner_entry, StatedValue):
            topic = f"{key} of level {border.name!r}"
            yield _claim(topic, key, outer_entry, outer_entry.source)
            yield replace(_claim(topic, key, inner_entry, place), yields=True)


def _claim(topic: str, key: str, entry: StatedValue, place: str) -> Claim:
    value = scale_to_unit(key, entry.value)
    values = frozenset({value}) if isinstance(value, str) else NumberRange(value, value)
    words = value if isinstance(value, str) else f"{value:g}"
    return Claim(topic, "", place, words, values)


def _lacks(draft: Draft, inner: System) -> tuple[tuple[MachineException, ...], tuple[str, ...]]:
    """Return the exceptions of the draft, and one for each device that a unit lacks."""
    if draft.contents is None:
        return draft.lacks, ()
    missing, source = draft.contents.missing(inner), draft.contents.source
    if not missing:
        return draft.lacks, ()
    note = (
        f"{len(missing)} devices of {inner.name} are missing, as some units of {source} have fewer "
        "than the fullest; the file does not say which ones: the last ones are assumed."
    )
    why = f"{source}: fewer devices than in other units"
    lacks = (MachineException.of(path, why) for path in missing)
    return (*draft.lacks, *lacks), (note,)


def _crossed_inner_levels(level: DraftLevel, node: DraftLevel) -> tuple[str, ...]:
    """Return the inner levels that a network level crosses: its own, then those of ``node``."""
    extra = tuple(name for name in node.through if name not in level.through)
    return (*level.through, *extra)
