"""Prices before any calibration: the performance of links of the same media on other clusters.

A data sheet states the capacity of a link. Collectives reach three quarters of it over NVLink and a
seventh over TCP. ``typical.toml`` has numbers learned from published measurements, by medium and
way: launches, hops, shares, the loss for each doubling of nodes, and the differences between
machines, which are the interval of such a price. ``python -m results.typical`` writes it, and
evaluates it by leaving out families of machines. It is not a measurement of the user's machine: a
calibration replaces it, and bounds use the description.
"""

from __future__ import annotations

import tomllib
from dataclasses import replace
from functools import cache
from importlib.resources import files

from pydantic import BaseModel, ConfigDict

from hierarchies import INSIDE, Calibration, Crossing, Domain, Fit, Link, Residual, System
from hierarchies.calibration import ANY, MODEL
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.nccl_model import HOPPER_NVLS_EFFICIENCY, nvls_efficiency
from synth.collective.algorithms.protocols import Protocol

WAYS = (ANY, *(algorithm.value for algorithm in Algorithm))
PLACED = (Algorithm.TREE.value, Algorithm.IN_NETWORK.value)
"""Ways whose share of a ring's bandwidth differs inside nodes and between them."""
SWITCHED = "pcie switched"
"""PCIe through switches, if described so. ``pcie`` alone is a bus shared by all devices."""


class _TypicalPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Medium(_TypicalPart):
    """The performance of a medium: the latency of a message by protocol, the share of a ring.

    ``share`` is that of machines that work; ``slow`` has the shares of families of machines with
    such links that were measured to be slow (no GPUDirect, NICs far from their GPUs, losses).
    """

    name: str
    families: int
    hop_us: dict[str, float]
    share: float
    slow: list[float] = []


class Spread(_TypicalPart):
    """The range of ratios of machines' times to the price, from a size on, for one medium."""

    medium: str
    from_bytes: int
    families: int
    low: float
    high: float


class TypicalNumbers(_TypicalPart):
    """The learned numbers. Factors of ways and protocols multiply the share of a ring by Simple.

    ``loss`` is the loss of bandwidth between nodes for each doubling of nodes; ``copied_GB_per_s``
    the rate at which a processor copies for TCP, for each device: the thread that does it is the
    rank's own.
    """

    source: str
    families: int
    tables: int
    loss: float
    copied_GB_per_s: float  # noqa: N815 - the unit in its usual spelling
    in_network_launch: float
    launch_us: dict[str, float]
    peer_us: dict[str, float]
    protocol: dict[str, float]
    way: dict[str, float]
    medium: list[Medium]
    spread: list[Spread]

    def of(self, name: str) -> Medium | None:
        return next((medium for medium in self.medium if medium.name == name), None)


@cache
def load_typical() -> TypicalNumbers:
    """Returns the numbers of ``typical.toml``."""
    text = files("synth.measure.calibration").joinpath("typical.toml").read_text(encoding="utf-8")
    return TypicalNumbers.model_validate(tomllib.loads(text))


def medium_of(link: Link) -> str:
    """Returns the medium of a link in these numbers; "" if none is stated."""
    return SWITCHED if link.medium == "pcie" and link.domain is not Domain.BUS else link.medium


def apply_typical(system: System, known: TypicalNumbers | None = None) -> System:
    """Returns the system priced by the typical performance of its links' media.

    It is unchanged if it is calibrated, if no medium is known, or if its numbers are effective
    ones.
    """
    known = known or load_typical()
    media = [known.of(medium_of(link)) for link in system.links]
    if system.calibration or not system.launches or not any(media):
        return system
    fits = tuple(_fit(system, media, known, protocol, way) for protocol in Protocol for way in WAYS)
    found = Calibration(
        fits, _residuals(media, known), (known.source,), runtime=MODEL, families=known.families
    )
    return replace(system, calibration=found)


def _fit(
    system: System, media: list[Medium | None], known: TypicalNumbers, protocol: Protocol, way: str
) -> Fit:
    launch = known.launch_us[protocol.value] * 1e-6
    if way == Algorithm.IN_NETWORK.value:
        launch *= known.in_network_launch
    levels = tuple(
        _crossing(
            link, medium, system.port_bytes_per_second(n) / system.block(n), known, protocol, way
        )
        for n, (link, medium) in enumerate(zip(system.links, media, strict=True))
    )
    return Fit(protocol.value, levels, launch, way)


def _crossing(
    link: Link,
    medium: Medium | None,
    device_bytes_per_second: float,
    known: TypicalNumbers,
    protocol: Protocol,
    way: str,
) -> Crossing:
    if medium is None:
        hop = protocol.latency_seconds(link) or link.latency_seconds
        return Crossing(hop, protocol.share)
    place = "inside" if link.medium in INSIDE else "between"
    placed = f"{way} {place}" if way in PLACED else way
    efficiency = relative_nvls_efficiency(link) if way == Algorithm.IN_NETWORK.value else 1.0
    share = (
        efficiency
        * medium.share
        * known.way.get(placed, 1.0)
        * known.protocol.get(protocol.value, 1.0)
    )
    copied = device_bytes_per_second / 1e9 / known.copied_GB_per_s
    slower = 1 + copied if link.medium == "tcp" else 1.0
    between = place == "between"
    return Crossing(
        medium.hop_us[protocol.value] * 1e-6,
        min(1.0, share) * protocol.share / slower,
        known.peer_us[place] * 1e-6,
        known.loss if between else 0.0,
    )


def relative_nvls_efficiency(link: Link) -> float:
    """The efficiency of NVLink switches that reduce, relative to Hopper's; 1 for other links."""
    if not (link.reduces and link.medium == "nvlink"):
        return 1.0
    return nvls_efficiency(link.bandwidth_bytes_per_second) / HOPPER_NVLS_EFFICIENCY


def _residuals(media: list[Medium | None], known: TypicalNumbers) -> tuple[Residual, ...]:
    """Returns the spread of the outermost level's medium, which joins most of the machine."""
    outermost = next(medium for medium in media if medium)
    return tuple(
        Residual(spread.from_bytes, spread.families, spread.low, 1.0, spread.high)
        for spread in known.spread
        if spread.medium == outermost.name
    )
