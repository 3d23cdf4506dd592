"""A system put inside the units of an imported network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hierarchies.errors import InputError
from hierarchies.importers.claims import Between, Claim, settle
from hierarchies.importers.draft import Draft, DraftLevel, Lack, Stated, level_of
from hierarchies.importers.models import claims_of_device
from hierarchies.importers.writing import written
from hierarchies.system import System

MOST_LACKS = 1000
_COMPARED = ("domain", "bandwidth_GB_per_s", "ports")
"""What a network and the system inside it may both state of the level of nodes."""


def around(draft: Draft, inner: System) -> Draft:
    """The network of a draft around nodes that ``inner`` describes.

    The innermost level of the draft (the nodes of one switch) and the outermost of ``inner`` (its
    nodes) become one level. Its count is from the draft; ``inner`` fills in what is blank there.
    Where the units of ``inner`` are racks, they take the place of the blocks of the draft's nodes.

    Raises InputError for a draft of devices, and where ``inner`` has more or fewer devices in a
    unit than the draft.
    """
    if draft.holds_devices and draft.wider is None:
        raise InputError(
            "--inside describes nodes, and this file describes devices already",
            hint="leave --inside out",
        )
    if draft.holds_devices:
        assert draft.wider is not None
        return around(draft.wider, inner)
    wider = draft.wider
    if wider is not None and not _agrees(draft, inner) and _agrees(wider, inner):
        return _merged(wider, inner)
    return _merged(draft, inner)


def _agrees(draft: Draft, inner: System) -> bool:
    """Whether the units of a draft have as many devices as those of a system, as far as known."""
    return draft.contents is None or draft.contents.agrees(inner)


def _merged(draft: Draft, inner: System) -> Draft:
    claims = tuple(_claims(draft, inner))
    whole = draft.contents.unit if draft.contents else "node"
    conflicts = settle(claims, f"give a system whose {whole} has the devices of this file's")
    node, *inside = [level_of(inner, position) for position in range(len(inner.links))]
    border = draft.levels[-1]
    stated = {key for key, entry in border.entries().items() if isinstance(entry, Stated)}
    theirs = {key: e for key, e in node.entries().items() if key not in {"count", *stated}}
    medium = border.medium or node.medium
    merged = replace(border.having(theirs), through=node.through, medium=medium)
    taken = {level.name for level in inside}
    clash = [level.name for level in draft.levels if level.name in taken]
    if clash:
        raise InputError(
            f"level {clash[0]!r} is in the network and inside the node",
            hint="rename it in one of the two files",
        )
    outside = [
        replace(level, through=_beyond(level, node)) if border.name in level.through else level
        for level in draft.levels[:-1]
    ]
    lacks, notes = _lacks(draft, inner)
    unconfirmed = "memory_GB_per_s" in inner.unconfirmed
    return replace(
        draft,
        levels=(*outside, merged, *inside),
        device=inner.device,
        memory_bytes_per_second=Stated(
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
    """What both the draft and the system state."""
    place = f"--inside {inner.name}"
    if draft.contents is not None:
        yield from draft.contents.claims(inner)
    device = next(claims_of_device(inner.device, place), None)
    for model in draft.models:
        yield from claims_of_device(model, draft.title.partition(":")[0])
        if device is not None:
            yield device
    border, node = draft.levels[-1], level_of(inner, 0)
    for key in _COMPARED:
        ours, theirs = border.entries().get(key), node.entries().get(key)
        if isinstance(ours, Stated) and isinstance(theirs, Stated):
            topic = f"{key} of level {border.name!r}"
            yield _claim(topic, key, ours, ours.source)
            yield replace(_claim(topic, key, theirs, place), yields=True)


def _claim(topic: str, key: str, entry: Stated, place: str) -> Claim:
    value = written(key, entry.value)
    values = frozenset({value}) if isinstance(value, str) else Between(value, value)
    words = value if isinstance(value, str) else f"{value:g}"
    return Claim(topic, "", place, words, values)


def _lacks(draft: Draft, inner: System) -> tuple[tuple[Lack, ...], tuple[str, ...]]:
    """Exceptions of the draft, and one for each device that a unit of it lacks."""
    if draft.contents is None:
        return draft.lacks, ()
    missing, source = draft.contents.missing(inner), draft.contents.source
    if len(missing) + len(draft.lacks) > MOST_LACKS:
        raise InputError(
            f"{len(missing):,} devices are missing from the units of {draft.name}",
            hint=f"at most {MOST_LACKS:,} are listed; import a part of the cluster",
        )
    if not missing:
        return draft.lacks, ()
    note = (
        f"{len(missing)} devices of {inner.name} are missing, as some units of {source} have fewer "
        "than the fullest; which ones a machine lacks is not in the file: the last ones are taken."
    )
    lacks = (Lack(path, f"{source}: fewer devices than in other units") for path in missing)
    return (*draft.lacks, *lacks), (note,)


def _beyond(level: DraftLevel, node: DraftLevel) -> tuple[str, ...]:
    """The inner levels that a network level crosses: its own, then those that ``node`` crosses."""
    extra = tuple(name for name in node.through if name not in level.through)
    return (*level.through, *extra)
