"""The shape of the links between GPUs: a mesh, a ring, or neither, which fits no level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from hierarchies.errors import InputError
from hierarchies.importers.hostlist import shorten_list
from hierarchies.system import Domain

Links = Mapping[tuple[int, int], int]
LARGEST_RING, MOST_STEPS = 32, 20_000


@dataclass(frozen=True)
class IslandShape:
    """Equal islands of GPUs, each in the order of its GPUs, and the links that join them.

    ``domain`` is None if the links form neither a mesh nor a ring. ``links`` is the number of links
    between two neighbours. In an irregular shape it is half of the links of the GPU with the
    fewest, which is the number for each neighbour if rings use all links. ``ring``: there is a ring
    through every island. ``off`` has GPUs without links to the rest of their island.
    """

    islands: tuple[tuple[int, ...], ...]
    domain: Domain | None
    links: float
    ring: bool = True
    off: tuple[int, ...] = ()


def count_links_between(links: Links, first: int, second: int) -> int:
    """Return the number of links between two GPUs."""
    return links.get((min(first, second), max(first, second)), 0)


def find_shape(gpus: int, links: Links, names: Sequence[str] = ()) -> IslandShape:
    """Return the shape of direct links; fewer than half of the GPUs may have lost all of theirs.

    Raises InputError, with the ``names`` of GPUs, if the islands have unequal sizes.
    """
    parts = members_of_parts(parts_of(gpus, links))
    unlinked = tuple(part[0] for part in parts if len(part) == 1)
    linked = [part for part in parts if len(part) > 1]
    if not linked:
        return IslandShape(tuple(parts), None, 0, ring=False)
    complete = _complete_parts(linked, unlinked) if 2 * len(unlinked) < gpus else None
    if complete is None:
        names = names or [f"GPU {number}" for number in range(gpus)]
        listed = "; ".join(shorten_list(names[gpu] for gpu in part) for part in parts)
        sizes = " and ".join(map(str, sorted({*map(len, parts)})))
        raise InputError(
            f"links connect the GPUs in parts of {sizes}: {listed}",
            hint="all parts of a system are equal: import the GPUs of one part, or "
            "write the description by hand",
        )
    shape = _match_mesh(linked, links) or _match_rings(linked, links)
    if not unlinked:
        return shape
    domain = shape.domain if shape.domain is Domain.MESH else None
    return IslandShape(tuple(complete), domain, shape.links, ring=False, off=unlinked)


def _complete_parts(
    linked: list[tuple[int, ...]], unlinked: tuple[int, ...]
) -> list[tuple[int, ...]] | None:
    """Return the parts, the short ones completed with GPUs that have no links.

    None if that does not make them equally large.
    """
    size = -(-(sum(map(len, linked)) + len(unlinked)) // len(linked))
    rest = iter(unlinked)
    complete = [tuple(sorted((*part, *islice(rest, max(0, size - len(part)))))) for part in linked]
    return (
        complete
        if {len(part) for part in complete} == {size} and next(rest, None) is None
        else None
    )


def parts_of(gpus: int, links: Links) -> tuple[int, ...]:
    """Return each GPU's first GPU of its connected part: links 0-1 and 2-3 give (0, 0, 2, 2)."""
    part = list(range(gpus))
    for (first, second), count in links.items():
        if count and part[first] != part[second]:
            low, high = sorted((part[first], part[second]))
            part = [low if p == high else p for p in part]
    return tuple(part)


def members_of_parts(parts: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the GPUs of each part: (0, 0, 2, 2) gives (0, 1) and (2, 3)."""
    return [
        tuple(gpu for gpu, own in enumerate(parts) if own == part) for part in sorted(set(parts))
    ]


def _match_mesh(parts: list[tuple[int, ...]], links: Links) -> IslandShape | None:
    counts = {
        count_links_between(links, a, b) for part in parts for a in part for b in part if a != b
    }
    if len(counts) == 1 and 0 not in counts:
        return IslandShape(tuple(parts), Domain.MESH, counts.pop())
    return None


def _match_rings(parts: list[tuple[int, ...]], links: Links) -> IslandShape:
    """Return rings, if they include all links and these are equal; else an irregular shape."""
    rings = tuple(ring for part in parts if (ring := _find_ring(part, links)))
    complete = len(rings) == len(parts)
    counts = {count for count in links.values() if count}
    own = [
        [count for peer in part if (count := count_links_between(links, gpu, peer))]
        for part in parts
        for gpu in part
    ]
    if complete and len(counts) == 1 and all(len(peers) == 2 for peers in own):
        return IslandShape(rings, Domain.RING, counts.pop())
    return IslandShape(
        rings if complete else tuple(parts), None, min(map(sum, own)) / 2, ring=complete
    )


def _find_ring(part: tuple[int, ...], links: Links) -> tuple[int, ...] | None:
    """Return a ring through a part, preferring most links; None if none is found in time."""
    if len(part) > LARGEST_RING:
        return None
    nearest = {
        gpu: sorted(
            (peer for peer in part if count_links_between(links, gpu, peer)),
            key=lambda peer: (count_links_between(links, gpu, peer), -peer),
        )
        for gpu in part
    }
    stack: list[tuple[int, ...]] = [(part[0],)]
    for _ in range(MOST_STEPS):
        if not stack:
            return None
        path = stack.pop()
        if len(path) == len(part):
            if count_links_between(links, path[-1], path[0]):
                return path
            continue
        stack.extend((*path, peer) for peer in nearest[path[-1]] if peer not in path)
    return None
