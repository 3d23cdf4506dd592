"""The machines that are built: switches in switches, with rates that two cores can carry."""

from __future__ import annotations

from hierarchies import Domain, Hierarchy, Level, Link, System

NAMES = ("gpu", "node", "rack", "room")
_FAR_FASTER_BYTES_PER_SECOND = 1e15


def built(shape: tuple[int, ...], megabits: tuple[float, ...]) -> System:
    """A tree of switches of a shape, with the rate of a port at each level; outermost first."""
    names = NAMES[: len(shape)][::-1]
    links = tuple(
        Link(Domain.SWITCH, rate * 1e6 / 8, 0.0, through=names[level + 1 :])
        for level, rate in enumerate(megabits)
    )
    levels = tuple(Level(name, count) for name, count in zip(names, shape, strict=True))
    title = (
        "x".join(map(str, shape)) + ", " + "/".join(f"{rate:g}" for rate in megabits) + " Mbit/s"
    )
    name = title.replace(", ", "-").replace("/", "-").replace(" Mbit-s", "")
    return System(
        name, title, Hierarchy(levels), links, _FAR_FASTER_BYTES_PER_SECOND, launches=False
    )
