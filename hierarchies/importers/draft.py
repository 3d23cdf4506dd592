"""Drafts of systems: the values that an imported file states, and blanks for the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hierarchies.errors import InputError
from hierarchies.files.schema import LevelInFull, MachineException
from hierarchies.importers.claims import Claim, settle
from hierarchies.importers.contents import Contents
from hierarchies.system import System

MOST_NODES, MOST_LACKS = 10**6, 1000
Value = bool | int | float | str


@dataclass(frozen=True)
class StatedValue:
    """A value that the file determines.

    ``source`` is its location, or the table from which it was computed. ``unconfirmed``: the file
    states it, but there is a reason for doubt, which a note explains.
    """

    value: Value
    source: str
    unconfirmed: bool = False


@dataclass(frozen=True)
class Blank:
    """A value that the file does not state.

    ``suggestion`` is a usual value, None if none is known. ``source`` is the origin of the
    suggestion, or a hint where to find the value. ``needed``: a system cannot be read without it;
    otherwise it is optional.
    """

    suggestion: Value | None = None
    source: str = ""
    needed: bool = True


Entry = StatedValue | Blank
UNKNOWN = Blank()
_FIELDS = {
    "count": "count",
    "domain": "domain",
    "bandwidth_GB_per_s": "bandwidth_bytes_per_second",
    "latency_us": "latency_seconds",
    "ll_latency_us": "ll_latency_seconds",
    "ll128_latency_us": "ll128_latency_seconds",
    "ports": "ports",
    "reduces": "reduces",
    "wraps": "wraps",
}
"""Fields of a level by their keys in the TOML description, in the order of writing."""


@dataclass(frozen=True)
class DraftLevel:
    """The known facts of a level; ``hierarchies.system.Link`` explains the fields.

    Bandwidths are bytes per second, latencies seconds; ``domain`` is the value of a ``Domain``.
    ``count`` is None if open, for the outermost level only: ``load`` then takes 1, or the N of
    ``file.toml:N``. ``through`` names inner levels. ``about`` is a comment above the level.
    """

    name: str
    domain: Entry
    bandwidth_bytes_per_second: Entry
    latency_seconds: Entry = UNKNOWN
    count: Entry | None = None
    ports: Entry | None = None
    through: tuple[str, ...] = ()
    reduces: Entry | None = None
    ll_latency_seconds: Entry | None = None
    ll128_latency_seconds: Entry | None = None
    about: str = ""
    medium: str = ""
    wraps: Entry | None = None

    def entries(self) -> dict[str, Entry]:
        """Stated and blank values by their keys in the TOML description, in order of writing."""
        known = {key: getattr(self, field) for key, field in _FIELDS.items()}
        return {key: entry for key, entry in known.items() if entry is not None}

    def having(self, entries: Mapping[str, Entry]) -> DraftLevel:
        """Return the same level with other entries, by their keys."""
        changes: dict[str, Any] = {_FIELDS[key]: entry for key, entry in entries.items()}
        return replace(self, **changes)


@dataclass(frozen=True)
class Draft:
    """The part of a system that files describe; ``draft_to_toml`` writes it as a description.

    ``levels`` are outermost first. ``notes`` are facts that a ``System`` cannot represent.
    ``lacks`` are missing or slower units. ``counted`` has counts of the parts found in the files
    (gpus, nics, links, switches).

    ``claims`` are the statements of files and options; ``settled`` turns their contradictions into
    ``warnings``, which come first. ``models`` are the models of its devices as the file names them.
    ``contents`` are the innermost units that contain devices, None if they are unknown.
    ``holds_devices``: the innermost units are devices, so no system can be put inside. ``wider`` is
    the draft with larger innermost units, for an inner system that is a rack or a process of
    devices rather than a node. ``advice`` is the note that applies only if nothing is put inside.
    """

    name: str
    title: str
    levels: tuple[DraftLevel, ...]
    device: str = ""
    memory_bytes_per_second: Entry = UNKNOWN
    notes: tuple[str, ...] = ()
    counted: Mapping[str, int] = field(default_factory=dict)
    lacks: tuple[MachineException, ...] = ()
    claims: tuple[Claim, ...] = ()
    warnings: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    contents: Contents | None = None
    holds_devices: bool = False
    wider: Draft | None = None
    advice: str = ""

    def __post_init__(self) -> None:
        if not self.levels:
            raise InputError("nothing that could be a level was found")
        if len(self.lacks) > MOST_LACKS:
            raise InputError(
                f"{len(self.lacks):,} units of {self.name} are missing or slower",
                hint=f"at most {MOST_LACKS:,} are listed; import a part of the machine",
            )

    def blanks(self) -> Iterator[tuple[str, str, Blank]]:
        """Yield the place (``device`` or a level), the key and the value of blanks, in order."""
        if isinstance(self.memory_bytes_per_second, Blank):
            yield "device", "memory_GB_per_s", self.memory_bytes_per_second
        for level in self.levels:
            for key, entry in level.entries().items():
                if isinstance(entry, Blank):
                    yield level.name, key, entry

    def suggested(self) -> Draft:
        """Return the same draft with every suggestion accepted, as an unconfirmed value."""
        return replace(
            self,
            memory_bytes_per_second=_accept_suggestion(self.memory_bytes_per_second),
            levels=tuple(
                level.having(
                    {key: _accept_suggestion(entry) for key, entry in level.entries().items()}
                )
                for level in self.levels
            ),
        )

    def settled(self, hint: str = "") -> Draft:
        """Return the same draft with its contradictions as warnings.

        Raises InputError, with the hint, for a contradiction that nothing resolves.
        """
        return replace(self, warnings=(*settle(self.claims, hint), *self.warnings), claims=())


def _accept_suggestion(entry: Entry) -> Entry:
    if isinstance(entry, StatedValue) or entry.suggestion is None:
        return entry
    return StatedValue(entry.suggestion, f"suggested: {entry.source}", unconfirmed=True)


def likely_value(entry: Entry) -> Value | None:
    """Return the value of an entry, or its suggestion."""
    return entry.value if isinstance(entry, StatedValue) else entry.suggestion


def is_refinement(fine: Sequence[object], coarse: Sequence[object]) -> bool:
    """Whether a level can be inside another: each part of ``fine`` is in one part of ``coarse``.

    Both list the part of every GPU or host: (0, 0, 1, 1) refines (0, 0, 0, 0).
    """
    return len(set(zip(fine, coarse, strict=True))) == len(set(fine))


def draft_level_of(system: System, position: int) -> DraftLevel:
    """Return a level of a known system as a draft level, with its sources."""
    link, level = system.links[position], system.hierarchy.levels[position]

    values = {key: getattr(link, field, None) for key, field in _FIELDS.items()}
    values |= {"domain": link.domain.value, "count": level.cardinality}
    origin = f"the description of {system.name}"
    stated = {
        key: StatedValue(value, link.source(key, origin), key in link.unconfirmed)
        for key, value in values.items()
        if value is not None and (key == "ports" or value != LevelInFull.usual.get(key))
    }
    blank = DraftLevel(level.name, UNKNOWN, UNKNOWN, through=link.through, medium=link.medium)
    return blank.having(stated)


@dataclass(frozen=True)
class ImportOptions:
    """Options of an import.

    ``nodes`` is the number of identical nodes; ``gpu`` the model of their GPUs, one of ``MODELS``;
    ``keys`` the labels of Kubernetes nodes that name the levels, outermost first.
    """

    nodes: int | None = None
    gpu: str | None = None
    keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.nodes is not None and not 1 <= self.nodes <= MOST_NODES:
            raise InputError(f"{self.nodes} nodes", hint=f"from 1 to {MOST_NODES}")
