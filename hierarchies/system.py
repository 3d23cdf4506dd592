"""A machine: a hierarchy, and the links that join the children at each of its levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from math import gcd, isfinite

from hierarchies.calibration import Calibration
from hierarchies.errors import InputError, error_context, suggest_nearest
from hierarchies.faults import Fault, check_distinct_faults, missing_devices
from hierarchies.hierarchy import Hierarchy, Level, check_distinct

LONGEST_NAME = 100
SLOWEST, FASTEST, LONGEST_SECONDS = 1.0, 1e36, 1e6
_QUOTING = frozenset("\"'`\\")


class Domain(Enum):
    """The kind of link that joins the children of one parent.

    * switch: every child's ports lead into a non-blocking crossbar;
    * ring: the children form a circle; the bandwidth is that of one link between neighbours;
    * mesh: every two children have a link of their own;
    * bus: all children share one medium; the bandwidth is its total;
    * torus: as ring, but every device has a link of its own to its two neighbours in this
      dimension; nested torus levels make tori of two and three dimensions.

    Where the ends of a ring or torus are not joined (``wraps``) it is a line, or a grid.
    """

    SWITCH = "switch"
    RING = "ring"
    MESH = "mesh"
    BUS = "bus"
    TORUS = "torus"


INSIDE = ("nvlink", "xgmi", "pcie", "ici")
MEDIA = (*INSIDE, "infiniband", "roce", "efa", "slingshot", "tcpxo", "tcp")
"""The kinds of networks; ``INSIDE`` has the kinds that join devices rather than hosts."""


@dataclass(frozen=True)
class Link:
    """The links that join the children of one level.

    ``bandwidth_bytes_per_second`` is the rate per direction of one port (of one link in a ring,
    mesh or torus, of the whole medium on a bus). One child has ``ports`` ports (NICs, rails,
    uplinks), shared by equal, contiguous blocks of its devices, the smallest for which both numbers
    are whole: with four ports and eight devices each port serves two, with sixteen ports each
    device has two, and with twelve every two devices share three. Neighbours of one level share
    fewer ports that do not divide them as evenly as they can: of five devices on three ports, two,
    two and one. Traffic of this level also
    crosses the links of the inner levels ``through``. Without any, the ports are attached directly
    to the devices, like NICs on PCIe. ``latency_seconds`` is that of a message sent whole and then
    announced (NCCL's Simple protocol). ``ll_latency_seconds`` and ``ll128_latency_seconds`` are
    those of messages with their own flags (NCCL's LL and LL128), None if the links or their library
    lack the protocol. ``wraps``: whether the ends of a ring or torus are joined. ``reduces``: the
    switch can reduce the data of several devices, and multicast the data of one (NVLink SHARP;
    SHARP). ``medium`` is the kind of network (one of ``MEDIA``), "" if not stated; before any
    calibration it selects the typical numbers for prices. ``sources`` has the source of each
    number; ``unconfirmed`` the numbers that no primary source confirms.
    """

    domain: Domain
    bandwidth_bytes_per_second: float
    latency_seconds: float
    ports: int = 1
    through: tuple[str, ...] = ()
    sources: Mapping[str, str] | None = None
    unconfirmed: tuple[str, ...] = ()
    reduces: bool = False
    ll_latency_seconds: float | None = None
    ll128_latency_seconds: float | None = None
    medium: str = ""
    wraps: bool = True

    def source(self, key: str, otherwise: str = "") -> str:
        """Return the source of a number, by its key in descriptions (``latency_us``)."""
        return (self.sources or {}).get(key, otherwise)

    def __post_init__(self) -> None:
        _check_positive(self.bandwidth_bytes_per_second, "bandwidth")
        _check_latency(self.latency_seconds, "latency")
        _check_latency(self.ll_latency_seconds or 0.0, "latency of LL")
        _check_latency(self.ll128_latency_seconds or 0.0, "latency of LL128")
        if self.ports < 1:
            raise InputError(f"ports is {self.ports}", hint="at least 1 is needed")
        if self.medium and self.medium not in MEDIA:
            raise InputError(f"no medium {self.medium!r}", hint=suggest_nearest(self.medium, MEDIA))
        if self.reduces and self.domain is not Domain.SWITCH:
            raise InputError(f"a {self.domain.value} that reduces", hint="only a switch can reduce")
        if not self.wraps and self.domain not in (Domain.RING, Domain.TORUS):
            raise InputError(
                f"a {self.domain.value} that does not wrap", hint="only a ring or torus has ends"
            )


@dataclass(frozen=True)
class System:
    """A hierarchy with one link per level, outermost first, and its devices' memory bandwidth.

    The name is written into comments and docstrings of emitted code, so it is one line that cannot
    end them; the title is only displayed. ``calibration`` has the fitted numbers of these links:
    prices follow it, while the description remains unchanged. ``faults`` are missing parts, and
    parts slower than ``links`` state; ``hierarchy`` includes missing devices. ``launches``: every
    call of a collective costs its launch, as in GPU libraries; false if the numbers already include
    it, or if nothing is launched. ``device`` names its devices as ``hierarchies.devices`` does.
    ``nccl`` is the version of NCCL that a question states, as ``2.29.7``; "" if it states none.
    """

    name: str
    title: str
    hierarchy: Hierarchy
    links: tuple[Link, ...]
    memory_bytes_per_second: float
    memory_source: str = ""
    unconfirmed: tuple[str, ...] = ()
    calibration: Calibration | None = None
    faults: tuple[Fault, ...] = ()
    launches: bool = True
    device: str = ""
    nccl: str = ""

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_title(self.title)
        _check_positive(self.memory_bytes_per_second, "memory bandwidth")
        if len(self.links) != len(self.hierarchy.levels):
            raise InputError(
                f"{len(self.links)} links for {len(self.hierarchy.levels)} levels",
                hint="every level needs one",
            )
        if self.calibration:
            self._check_fits(self.calibration)
        for check in (self._check_ports, self._check_through, self._check_chain):
            for level, name in enumerate(self.hierarchy.names):
                with error_context(f"level {name!r}"):
                    check(level)
        for fault in self.faults:
            self._check_fault(fault)
        check_distinct_faults(self.faults, self.hierarchy)
        self._check_ports_left()

    @property
    def devices(self) -> int:
        return self.hierarchy.devices

    @property
    def is_torus(self) -> bool:
        """Whether all levels form one torus of devices, as in a TPU slice."""
        return all(link.domain is Domain.TORUS for link in self.links)

    @property
    def prices(self) -> str:
        """The source of its prices: ``calibrated``, ``typical`` of such links, or as ``stated``."""
        if self.calibration is None:
            return "stated"
        return "typical" if self.calibration.families else "calibrated"

    @cached_property
    def missing(self) -> tuple[int, ...]:
        """The ids of the missing devices, ascending."""
        return missing_devices(self.faults, self.hierarchy)

    @property
    def healthy(self) -> System:
        """The same machine without faults."""
        return replace(self, faults=())

    @property
    def faults_text(self) -> str:
        """The faults in words; empty for a healthy machine."""
        return ", ".join(
            f"without {fault.name(self.hierarchy)}"
            if fault.missing
            else f"{fault.name(self.hierarchy)} at {fault.share:g} of its bandwidth"
            for fault in self.faults
        )

    def check_even(self) -> System:
        """Return the system itself. Raises InputError if a device is missing.

        Prices by levels need one number of children for each level, which a machine with nodes of
        seven and of eight GPUs lacks.
        """
        if self.missing:
            raise InputError(
                f"{self.name} lacks {len(self.missing)} of {self.devices} devices "
                f"({self.faults_text}): its units are uneven",
                hint="only 'top' and 'cost', over one axis of all that are left, can treat that; "
                "for the rest describe the largest even machine",
            )
        return self

    def with_faults(self, more: Iterable[Fault]) -> System:
        """Return the same machine with additional faults.

        A share of 1 is no fault and is dropped. If whole outermost units are missing, and the
        others do not need them as links of a ring, the result is a smaller machine with renumbered
        units: four nodes without the last are a machine of three. Raises InputError for faults that
        the machine cannot have.
        """
        faulty = replace(self, faults=(*self.faults, *more))
        faults = tuple(fault for fault in faulty.faults if fault.share < 1)
        faulty = replace(faulty, faults=faults)
        inside = self.hierarchy.devices_in_child(0)
        lost_devices = Counter(device // inside for device in faulty.missing)
        missing_units = sorted(unit for unit, devices in lost_devices.items() if devices == inside)
        alone = self.links[0].domain not in (Domain.RING, Domain.TORUS)
        if not missing_units or not alone or any(not fault.path for fault in faults):
            return faulty
        smaller = self.healthy.resized(self.hierarchy.cardinalities[0] - len(missing_units))
        new_numbers = {
            old: old - sum(unit < old for unit in missing_units)
            for old, *_ in (f.path for f in faults)
        }
        remaining = (f for f in faults if f.path[0] not in missing_units)
        return replace(
            smaller,
            faults=tuple(replace(f, path=(new_numbers[f.path[0]], *f.path[1:])) for f in remaining),
        )

    def through(self, level: int) -> tuple[int, ...]:
        """Return the inner levels, by position, whose links the traffic of a level crosses too."""
        return tuple(self.hierarchy.index(name) for name in self.links[level].through)

    def block(self, level: int) -> int:
        """Return the number of neighbouring devices of one child that share a port at a level.

        Where ports are shared unevenly, the last block of a child is smaller.
        """
        inside, ports = self.hierarchy.devices_in_child(level), self.links[level].ports
        if self.is_shared_unevenly(level):
            return -(-inside // ports)
        return inside // gcd(inside, ports)

    def is_shared_unevenly(self, level: int) -> bool:
        """Whether some ports of a child serve fewer devices than others."""
        inside, ports = self.hierarchy.devices_in_child(level), self.links[level].ports
        return inside == self.hierarchy.cardinalities[-1] and are_shared_unevenly(inside, ports)

    def blocks(self, level: int) -> int:
        """Return the number of blocks of devices in one child that share ports at a level."""
        return -(-self.hierarchy.devices_in_child(level) // self.block(level))

    def ports_of_block(self, level: int) -> int:
        """Return the number of ports of a block of devices; one message may use all of them."""
        return self.links[level].ports // self.blocks(level)

    def port_bytes_per_second(self, level: int) -> float:
        """Return the bandwidth per direction of one block of devices (``block``) at a level."""
        return self.links[level].bandwidth_bytes_per_second * self.ports_of_block(level)

    def resized(self, outermost: int) -> System:
        """Return the same machine with another number of children at its outermost level."""
        first, *rest = self.hierarchy.levels
        levels = (Level(first.name, outermost), *rest)
        return replace(self, hierarchy=Hierarchy(levels))

    def _check_fits(self, calibration: Calibration) -> None:
        for fit in calibration.fits:
            if len(fit.levels) != len(self.links):
                raise InputError(
                    f"a fit of {len(fit.levels)} levels for a system of {len(self.links)}",
                    where="calibration",
                    hint="every level needs its numbers",
                )

    def _check_fault(self, fault: Fault) -> None:
        """Refuse faults of parts that do not exist or of links that cannot be slower or missing."""
        link, name = self.links[fault.level], fault.name(self.hierarchy)
        circle = link.domain in (Domain.RING, Domain.TORUS)
        if fault.port is not None:
            if link.domain is not Domain.SWITCH:
                raise InputError(
                    f"no port {name!r}", hint=f"in a {link.domain.value} only cables have names"
                )
            if not 0 <= fault.port < link.ports:
                raise InputError(f"no port {name!r}", hint=f"ports are 0 to {link.ports - 1}")
        if fault.ends is not None:
            low, high = fault.ends
            children = self.hierarchy.cardinalities[fault.level]
            steps = (1, children - 1) if link.wraps else (1,)
            adjacent = not circle or high - low in steps
            if link.domain in (Domain.SWITCH, Domain.BUS) or not adjacent:
                raise InputError(f"no cable {name!r}", hint=f"they stand in a {link.domain.value}")
            if fault.missing:
                raise InputError(
                    f"{name} cannot be missing: messages have no other way in our routes",
                    hint="say how slow it is instead",
                )
        if not fault.missing and fault.is_unit and link.domain is Domain.BUS:
            raise InputError(f"{name} has no link of its own", hint="a bus is one medium for all")

    def _check_ports_left(self) -> None:
        dead: dict[tuple[int, ...], int] = {}
        for fault in self.faults:
            if fault.port is not None and fault.missing:
                dead[fault.path] = dead.get(fault.path, 0) + 1
                if dead[fault.path] == self.links[fault.level].ports:
                    unit = replace(fault, port=None).name(self.hierarchy)
                    raise InputError(f"{unit} has no port left", hint=f"take it out: {unit}")

    def _check_ports(self, level: int) -> None:
        link = self.links[level]
        inside = self.hierarchy.devices_in_child(level)
        if link.domain is Domain.TORUS and link.ports != inside:
            raise InputError(
                f"a torus level with {link.ports} ports",
                hint=f"each device has a link of its own: ports = {inside}",
            )
        if link.domain not in (Domain.SWITCH, Domain.TORUS) and link.ports != 1:
            raise InputError(
                f"a {link.domain.value} with {link.ports} ports",
                hint="only switch and torus levels have several; state the bandwidth of one link",
            )
        self._check_blocks(level)

    def _check_blocks(self, level: int) -> None:
        """Refuse blocks of devices sharing a port that are not whole children of some level."""
        if self.is_shared_unevenly(level):
            return
        block = self.block(level)
        for inner in reversed(self.hierarchy.cardinalities[level + 1 :]):
            if block % inner == 0:
                block //= inner
            elif inner % block == 0:
                return
            else:
                raise InputError(
                    f"{self.links[level].ports} ports: a port would serve {self.block(level)} "
                    "devices, across the borders of "
                    f"inner levels {self.hierarchy.cardinalities[level + 1 :]}",
                    hint="a port serves whole children of one level",
                )

    def _check_through(self, level: int) -> None:
        check_distinct(self.links[level].through, "inner level passed through")
        for inner in self.through(level):
            name = self.hierarchy.names[inner]
            if inner <= level:
                raise InputError(
                    f"traffic cannot pass through level {name!r}", hint="name inner levels only"
                )
            if self.links[inner].domain not in (Domain.SWITCH, Domain.BUS):
                raise InputError(
                    f"traffic cannot pass through the {self.links[inner].domain.value} {name!r}",
                    hint="only through a switch or a bus",
                )

    def _check_chain(self, level: int) -> None:
        for inner in self.through(level):
            name = self.hierarchy.names[inner]
            missing = set(self.through(inner)) - set(self.through(level))
            if missing:
                beyond = ", ".join(repr(self.hierarchy.names[i]) for i in sorted(missing))
                raise InputError(
                    f"traffic passes through level {name!r} but not through {beyond}",
                    hint=f"what passes through {name!r} passes through those too: name them",
                )


def are_shared_unevenly(devices: int, ports: int) -> bool:
    """Whether neighbours share so many ports as evenly as they can, and yet not equally.

    >>> [are_shared_unevenly(5, ports) for ports in (2, 3, 4, 5, 6)]
    [True, True, False, False, False]
    """
    return ports < devices and devices % ports > 0 and -(-devices // -(-devices // ports)) == ports


def _check_positive(number: float, quantity: str) -> None:
    if not (isfinite(number) and number > 0):
        raise InputError(f"{quantity} is {number}", hint="a finite number above 0")
    if not SLOWEST <= number <= FASTEST:
        hint = f"from {SLOWEST:g} to {FASTEST:g} bytes per second"
        raise InputError(f"{quantity} is {number:g} bytes per second", hint=hint)


def _check_latency(seconds: float, quantity: str) -> None:
    if not (isfinite(seconds) and seconds >= 0):
        raise InputError(f"{quantity} is {seconds} s", hint="a finite number, 0 or more")
    if seconds > LONGEST_SECONDS:
        raise InputError(f"{quantity} is {seconds:g} s", hint=f"at most {LONGEST_SECONDS:g} s")


def _check_name(name: str) -> None:
    one_line = name.isprintable() and bool(name.strip())
    if not one_line or len(name) > LONGEST_NAME or _QUOTING & set(name):
        raise InputError(
            f"a system cannot be called {_shorten(name)}",
            where="name",
            hint=f"one line of 1 to {LONGEST_NAME} printable characters without quotes (\" ' `) "
            "and backslashes",
        )


def _check_title(title: str) -> None:
    if not title.isprintable():
        raise InputError(
            f"a system cannot have the title {_shorten(title)}",
            where="title",
            hint="one line of printable characters",
        )


def _shorten(text: str) -> str:
    return repr(text) if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]!r}..."
