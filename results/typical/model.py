"""What a collective takes by priors of its links' media: the form, its numbers, how they are found.

A row takes, by the way that NCCL's model chooses and the fastest protocol,

    launch + hops waited for + peers + bytes x the busiest level's seconds per byte

and no less than its thread takes to launch on all its GPUs, with numbers by medium. All are
logarithms of factors to NCCL's constants and to data sheets, each with a spread about what is more
general: a medium's share about that of all links inside nodes, or between. So few families of a
medium stay near the others (partial pooling: Gelman and Hill, 2006).
TCP copies through the processor, in a thread for each rank: its rate saturates, share = 1 / (1 +
rate of a device's part of the ports / thread's).

Machines of one medium are of two kinds, those that work and those that are slow (a NIC behind the
other socket, no GPUDirect, one rank for a NIC of 400 Gb/s). Which a family is is latent: it is slow
by its own factor where that explains its rows better by ``UNLIKELY``. Prices are those of machines
that work, and the intervals cover both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares
from scipy.sparse import csr_array

from hierarchies import INSIDE
from results.typical.rows import LEVELS, Floats, Integers, Rows
from synth.collective.algorithms.protocols import Protocol
from synth.measure.calibration.typical import PLACED, SWITCHED, Medium, Spread, TypicalNumbers

ASSIGNMENTS = 3
"""How often ways are assigned to default tables while learning."""
CLASSES = (0, 1 << 16, 1 << 24)
NOISE = np.array([0.4, 0.5, 0.25])
"""Expected deviations of logarithms by class of sizes, of rows of a family and of families."""
ALIKE = 0.5
"""The part of the deviations that rows of one family and class have in common."""
PROTOCOLS = tuple(protocol.value for protocol in Protocol)
HOPS_US = {
    **dict.fromkeys(("nvlink", "xgmi"), (3.4, 0.6, 1.9)),
    **dict.fromkeys(("pcie", SWITCHED), (5.7, 1.0, 2.5)),
}
LAUNCH = "launch on a GPU"
"""The seconds in which a thread launches on one of its GPUs."""
NETWORK_US = (14.0, 2.7, 4.0)
"""NCCL's constants by protocol, as the catalogue has them."""
_PLACES = ("inside", "between")
WAYS = ("direct", *(f"{way} {place}" for way in PLACED for place in _PLACES))
"""Ways with a share of their own: of some inside nodes and between them apart."""
MEDIA = (
    *("nvlink", "xgmi", "pcie", SWITCHED),
    *("infiniband", "roce", "efa", "slingshot", "tcpxo", "tcp"),
)


def _priors() -> dict[str, tuple[float, float]]:
    """Each unknown's logarithm before any row, and its spread."""
    found = {f"launch {protocol}": (0.0, 0.7) for protocol in PROTOCOLS}
    found["launch in-network"] = (0.0, 1.0)
    for place in _PLACES:
        found[f"hop {place}"] = (0.0, 0.7)
        # Without a common factor two protocols may swap their hops: rows fit either.
        found |= {f"hop {place} {protocol}": (0.0, 0.15) for protocol in PROTOCOLS}
    found |= {f"hop {medium}": (0.0, 0.5) for medium in MEDIA}
    found |= {"share inside": (np.log(0.8), 0.5), "share between": (np.log(0.8), 0.5)}
    found |= {f"share {medium}": (0.0, 0.3) for medium in MEDIA}
    for way in WAYS:
        found[f"share {way}"] = (0.0, 0.3)
    found |= {"share ll": (0.0, 0.3), "share ll128": (0.0, 0.2), "loss": (np.log(0.05), 1.0)}
    found |= {"peer inside": (np.log(1e-6), 1.0), "peer between": (np.log(15e-6), 1.0)}
    return found | {LAUNCH: (np.log(4e-6), 0.7), "copied GB_per_s": (np.log(5.0), 1.0)}


Names = npt.NDArray[np.str_]
Kept = npt.NDArray[np.bool_]
NEW = 0.25
"""What lies outside of all others of a new machine, in families: a quarter, as its rows are partly
alike. This and ``OTHERS`` were chosen so that intervals hold 85 to 95 % of machines left out."""
MIXED = ("roce", "efa")
"""Media with machines of two kinds: those of others come with GPUDirect and a network set up."""
WORKING = 0.1
"""How far a machine of a medium that works may be off, as a deviation of a logarithm: RoCE that
works reaches 0.90 to 0.95 of its data sheet, and 0.56 to 0.65 else (shared/design/prices.md)."""
SHARES = np.geomspace(1.0, 0.4, 20)
"""The shares of a data sheet that machines that work may reach."""
UNLIKELY = 1.0
"""The loss beyond which a way other than the model's choice is assumed to have run."""
OTHERS = 4.0
"""What all machines of other media count in the spread of one, in families."""
PRIORS = _priors()
NAMES = tuple(PRIORS)
START, SPREAD = (np.array([each[i] for each in PRIORS.values()]) for i in (0, 1))


def kin(medium: str) -> str:
    """Media whose machines stray alike: those that processors copy, PCIe, RDMA, and NVLink."""
    if medium == "tcp" or medium.startswith("pcie"):
        return medium[:4]
    return place_of(medium)


def place_of(medium: str) -> str:
    return "inside" if medium in (*INSIDE, SWITCHED) else "between"


@dataclass
class Model:
    """The form for some rows: which unknowns each candidate's launch, hops, peers and shares have.

    Matrices of (candidates, unknowns), and logarithms of constants, one a level where there are.
    """

    rows: Rows
    launch: tuple[Floats, Any] = field(init=False)
    hops: list[tuple[Floats, Any]] = field(init=False)
    shares: list[tuple[Floats, Any]] = field(init=False)
    peers: list[Any] = field(init=False)
    family: Integers = field(init=False)
    outer: Integers = field(init=False)
    medium: Names = field(init=False)

    def __post_init__(self) -> None:
        rows = self.rows
        self._protocol = np.array([PROTOCOLS.index(each) for each in rows.protocol])
        launches = np.log([Protocol(each).launch_seconds for each in PROTOCOLS])[self._protocol]
        named = [[f"launch {each}" for each in some] for some in (rows.protocol, rows.algorithm)]
        self.launch = launches, self._matrix(*named)
        levels = range(LEVELS)
        media = [np.array([each[level] for each in rows.media]) for level in levels]
        self.hops = [self._hops(each) for each in media]
        self.shares = [self._shares(each) for each in media]
        self.peers = [self._matrix([f"peer {place_of(m)}" for m in each]) for each in media]
        self._between = [np.array([place_of(m) == "between" for m in each]) for each in media]
        self._tcp = [each == "tcp" for each in media]
        self.family = rows.family[rows.row]
        self.outer = np.where(
            rows.waited[:, 0] > 0, np.where(media[0] != "", 0, -1), np.where(media[0] == "", 1, -1)
        )
        self.medium = np.where(media[0] != "", media[0], media[1])[rows.first]

    def _matrix(self, *columns: Sequence[str]) -> Any:
        """Which unknowns each candidate has, by their names; sparse, as few of them."""
        found: list[tuple[int, int]] = []
        for names in columns:
            known = [NAMES.index(name) if name in PRIORS else -1 for name in names]
            found += [(at, column) for at, column in enumerate(known) if column >= 0]
        places = np.array(found, dtype=np.int64).reshape(-1, 2)
        shape = len(self.rows.row), len(NAMES)
        return csr_array((np.ones(len(places)), (places[:, 0], places[:, 1])), shape=shape)

    def _hops(self, media: Names) -> tuple[Floats, Any]:
        constants = np.array([HOPS_US.get(medium, NETWORK_US) for medium in media])
        micro = constants[np.arange(len(media)), self._protocol]
        places = [f"hop {place_of(medium)}" for medium in media]
        ways = [f"{place} {p}" for place, p in zip(places, self.rows.protocol, strict=True)]
        named = [f"hop {medium}" for medium in media]
        return np.log(micro * 1e-6), self._matrix(places, ways, named)

    def _shares(self, media: Names) -> tuple[Floats, Any]:
        rows, places = self.rows, [place_of(medium) for medium in media]
        matrix = self._matrix(
            *([f"share {each}" for each in some] for some in (places, media, rows.protocol)),
            [f"share {way}" for way in rows.algorithm],
            [f"share {way} {place}" for way, place in zip(rows.algorithm, places, strict=True)],
        )
        return np.log([Protocol(each).share for each in rows.protocol]), matrix

    def seconds(
        self, unknowns: Floats, taken: Kept | None = None, slow: Floats | None = None
    ) -> Floats:
        """What each row takes by the candidates ``taken``: those of the default if not given."""
        allowed = self.rows.default if taken is None else taken
        every = np.where(allowed, self.every(unknowns, slow), np.inf)
        return np.asarray(np.minimum.reduceat(every, self.rows.first))

    def every(self, unknowns: Floats, slow: Floats | None = None) -> Floats:
        """What each candidate takes; ``slow``: how much slower each family's outer links are."""
        rows, sizes = self.rows, self.rows.size[self.rows.row]
        constant, matrix = self.launch
        found, busy = np.exp(constant + matrix @ unknowns), sizes * rows.memory
        copied = np.exp(unknowns[NAMES.index("copied GB_per_s")]) * 1e9
        loss = min(0.9, float(np.exp(unknowns[NAMES.index("loss")])))
        for level in range(LEVELS):
            hop, share = self.hops[level], self.shares[level]
            found = found + rows.waited[:, level] * np.exp(hop[0] + hop[1] @ unknowns)
            found = found + rows.peers[:, level] * np.exp(self.peers[level] @ unknowns)
            left = np.exp(share[0] + np.minimum(share[1] @ unknowns, 0.0))
            rate = np.where(self._tcp[level], 1 + rows.bandwidth[:, level] / copied, 1.0)
            lost = (1 - loss) ** np.where(self._between[level], rows.doublings[:, level], 0.0)
            if slow is not None:
                rate = np.where(self.outer == level, rate * slow[self.family], rate)
            busy = np.maximum(busy, sizes * rows.busy[:, level] * rate / (left * lost))
        launched = rows.launches * np.exp(unknowns[NAMES.index(LAUNCH)])
        return np.asarray(np.maximum(found + busy, launched[rows.row]))

    def kinds(self, unknowns: Floats, keep: Kept) -> Floats:
        """How much slower each family's outer links are than those of machines that work.

        The share of machines that work is the likeliest, before any row and by the families of a
        medium, if each is as fast, or slower at the cost of ``UNLIKELY``: none may be faster.
        Slower is by two deviations.
        """
        rows, taken = self.rows, self.assign(unknowns)
        found = np.ones(rows.family.max() + 1)
        large = keep & (self.outer[rows.first] >= 0) & (classes(rows.size) == len(CLASSES) - 1)
        for medium in MIXED:
            mine = large & (self.medium == medium)
            some, count = np.unique(rows.family[mine], return_counts=True)
            if not len(some):
                continue
            name, tried = f"share {medium}", unknowns.copy()
            known = np.log(SHARES) - unknowns[NAMES.index(f"share {place_of(medium)}")]
            apart = np.empty((len(SHARES), len(some)))
            for number, share in enumerate(known):
                tried[NAMES.index(name)] = share
                off = np.log(rows.seconds / self.seconds(tried, taken))
                apart[number] = [np.median(off[mine & (rows.family == each)]) for each in some]
            lost = count / (1 + (count - 1) * ALIKE) * _robust(apart / WORKING)
            lost = np.where(apart > 0, np.minimum(lost, UNLIKELY), lost).sum(axis=1)
            lost += ((known - PRIORS[name][0]) / PRIORS[name][1]) ** 2
            slower = apart[lost.argmin()]
            found[some] = np.where(slower > 2 * WORKING, np.exp(slower), 1.0)
        return found

    def assign(self, unknowns: Floats, slow: Floats | None = None) -> Kept:
        """The candidates by which each table's rows of a class most likely went.

        The algorithm and the protocol of a default log are not stated. Versions of NCCL and
        settings of a cluster differ, so others than the model's algorithm by the fastest protocol
        are assumed where they explain the rows better by ``UNLIKELY``.
        """
        rows, every = self.rows, self.every(unknowns, slow)
        ways = np.char.add(np.char.add(rows.algorithm, " "), rows.protocol)
        place = 10 * rows.table + classes(rows.size)
        noise, aim = NOISE[classes(rows.size)], np.log(rows.seconds)

        def lost(taken: Kept) -> Floats:
            seconds = np.minimum.reduceat(np.where(taken, every, np.inf), rows.first)
            far = np.minimum(np.abs(np.log(seconds) - aim) / noise, 1e3)
            return np.asarray(np.bincount(places, _robust(far)))

        _, places = np.unique(place, return_inverse=True)
        counts = np.bincount(places)
        found, least = rows.default.copy(), lost(rows.default)
        for way in np.unique(ways):
            taken = ways == way
            # Rows of one table and class are alike: together they count as two at most.
            loss = lost(taken)
            better = (least - loss) / (1 + (counts - 1) * ALIKE) > UNLIKELY
            found = np.where(better[places][rows.row], taken, found)
            least = np.where(better, loss, least)
        return found


def _robust(far: Floats) -> Floats:
    """A loss that is quadratic near 0 and linear beyond."""
    return np.asarray(2 * (np.sqrt(1 + far**2) - 1))


def classes(size: Floats) -> Integers:
    return np.asarray(np.searchsorted(CLASSES, size, side="right") - 1)


def weights(rows: Rows) -> Floats:
    """Each family counts in each class as rows of which ALIKE is in common: 2 at most."""
    found, which = np.zeros(len(rows.size)), classes(rows.size)
    for family in np.unique(rows.family):
        for each in range(len(CLASSES)):
            mine = (rows.family == family) & (which == each)
            found[mine] = 1 / (1 + (mine.sum() - 1) * ALIKE)
    return found


def learn(model: Model, keep: Kept, start: Floats = START, rounds: int = 15) -> Floats:
    """The unknowns that explain the kept rows best, and with them the ways that ran."""
    slow = np.ones(model.rows.family.max() + 1)
    found = _least(model, keep, start, rounds, model.rows.default, slow)
    for _ in range(ASSIGNMENTS):
        slow = model.kinds(found, keep)
        found = _least(model, keep, found, rounds, model.assign(found, slow), slow)
    return found


def _least(
    model: Model, keep: Kept, start: Floats, rounds: int, taken: Kept, slow: Floats
) -> Floats:
    """The unknowns for rows by given candidates, by a loss that far rows pull no harder at."""
    rows = model.rows
    noise = NOISE[classes(rows.size)]
    weight, aim = np.sqrt(weights(rows)), np.log(rows.seconds)

    def off(unknowns: Floats) -> Floats:
        far = (np.log(model.seconds(unknowns, taken, slow)) - aim) / noise
        pulled = np.sign(far) * np.sqrt(_robust(far)) * weight
        return np.concatenate([pulled[keep], (unknowns - START) / SPREAD])

    return np.asarray(least_squares(off, start, x_scale=SPREAD, max_nfev=rounds).x)


def typical(
    unknowns: Floats,
    source: str,
    counts: dict[str, int],
    tables: int,
    slow: Mapping[str, Sequence[float]],
) -> TypicalNumbers:
    """Unknowns as numbers of a file, without spreads; ``counts``: families by medium, "" all.

    ``slow``: by medium, how much slower than its share the families of the slow kind are.
    """
    found = {name: float(np.exp(each)) for name, each in zip(NAMES, unknowns, strict=True)}

    def medium(name: str) -> Medium:
        place, constants = place_of(name), HOPS_US.get(name, NETWORK_US)
        common = found[f"hop {place}"] * found[f"hop {name}"]
        hops = {
            protocol: short(us * found[f"hop {place} {protocol}"] * common)
            for protocol, us in zip(PROTOCOLS, constants, strict=True)
        }
        share = short(found[f"share {place}"] * found[f"share {name}"])
        reached = sorted(short(share / times) for times in slow.get(name, ()))
        known = counts.get(name, 0)
        return Medium(name=name, families=known, hop_us=hops, share=share, slow=reached)

    return TypicalNumbers(
        source=source,
        families=counts[""],
        tables=tables,
        loss=short(min(0.9, found["loss"])),
        copied_GB_per_s=short(found["copied GB_per_s"]),
        in_network_launch=short(found["launch in-network"]),
        launch_us={
            p: short(Protocol(p).launch_seconds * 1e6 * found[f"launch {p}"]) for p in PROTOCOLS
        },
        peer_us={place: short(1e6 * found[f"peer {place}"]) for place in _PLACES},
        protocol={name: short(found[f"share {name}"]) for name in ("ll", "ll128")},
        # No way carries more than a ring, so that unmeasured ways exceed no measured ones.
        way={name: short(min(1.0, found[f"share {name}"])) for name in WAYS},
        medium=[medium(name) for name in MEDIA],
        spread=[],
    )


def short(number: float) -> float:
    return float(f"{number:.4g}")


def spreads(ratios: Floats, rows: Rows, media: Sequence[str], slow: Kept) -> list[Spread]:
    """Between which ratios nine of ten machines lie, by medium and class of sizes.

    ``ratios`` are measured / priced seconds of machines that the prices had not seen, not a number
    where a row does not count; ``media`` what joins each family. Order statistics in which every
    family counts once, and all others of its ``kin`` together as ``OTHERS`` more: few of one
    medium do not make a narrow interval. ``slow`` families count only for their own medium. The
    price itself is always between.
    """
    found, which = [], classes(rows.size)
    for medium in MEDIA:
        for each, least in enumerate(CLASSES):
            counts = (which == each) & np.isfinite(ratios)
            weight, families = _by_family(rows.family, counts, medium, media, slow)
            low, high = _between(ratios, weight)
            low, high = short(min(1.0, low)), short(max(1.0, high))
            found.append(
                Spread(medium=medium, from_bytes=least, families=families, low=low, high=high)
            )
    return found


def _by_family(
    family: Integers, counts: Kept, medium: str, media: Sequence[str], slow: Kept
) -> tuple[Floats, int]:
    """The weight of each row for the spread of a medium, and how many families have it."""
    near = [n for n, each in enumerate(media) if kin(each) == kin(medium)]
    near = [n for n in near if media[n] == medium or not slow[n]]
    known = [n for n in near if (counts & (family == n)).any()]
    own = [n for n in known if media[n] == medium]
    weight = np.zeros(len(family))
    for number in known:
        mine = counts & (family == number)
        whole = 1.0 if number in own else OTHERS / (len(known) - len(own))
        weight[mine] = whole / mine.sum()
    return weight, len(own)


def _between(ratios: Floats, weight: Floats) -> tuple[float, float]:
    """Order statistics that a new machine is between in 9 of 10 cases, itself one family more
    (conformal prediction); with few the smallest and the largest, which hold fewer.
    """
    order = [place for place in np.argsort(ratios) if weight[place]]
    risen = np.cumsum(weight[order])
    whole = float(risen[-1])
    outside = max(0.0, 0.05 * (whole + 1) - NEW)
    low, high = np.searchsorted(risen, [outside, whole - outside])
    return float(ratios[order[int(low)]]), float(ratios[order[min(int(high), len(order) - 1)]])
