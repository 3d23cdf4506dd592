"""Programs over explicit groups for the devices that are present: two families of forms.

Ranks number the present devices in order. There are two families of all-reduces:

* *levels*: from the innermost level outwards, each unit sums to one of its devices (reduce) or to
  several with a share of the payload each (reduce-scatter). These devices all-reduce among units;
  then the result returns inwards (broadcast, all-gather). For a node of seven GPUs and a node of
  eight there are seven shares, one per device of the smallest unit; the eighth GPU gets none.
* *core*: the largest even machines inside the uneven machine. First each device outside adds its
  payload to a device inside; then any program of the language runs on the core's tree; at the end
  the device outside receives the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import lcm

from grammar import Collective
from hierarchies import Domain, InputError, System
from synth.collective.semantics.schedule import GroupList
from synth.collective.verify.concrete import GroupStep

Ranks = tuple[int, ...]
MOST_DEVICES = 256
"""The most devices for which z3 is asked to prove a program of explicit groups."""


@dataclass(frozen=True)
class Survivors:
    """The devices of a system that are present, by rank.

    Raises InputError for more than ``MOST_DEVICES``, and for rings and tori: messages there pass
    through devices, so a missing one breaks the ring.
    """

    system: System
    devices: Ranks = field(init=False)

    def __post_init__(self) -> None:
        gone = set(self.system.missing)
        left = tuple(d for d in range(self.system.devices) if d not in gone)
        if len(left) > MOST_DEVICES:
            raise InputError(
                f"{len(left)} devices of an uneven machine",
                hint=f"programs of explicit groups are proved for at most {MOST_DEVICES}; "
                "leave out whole units, or describe the largest even machine",
            )
        self._check_linked()
        object.__setattr__(self, "devices", left)

    def _check_linked(self) -> None:
        for level, link in zip(self.system.hierarchy.levels, self.system.links, strict=True):
            if link.domain in (Domain.RING, Domain.TORUS):
                raise InputError(
                    f"level {level.name!r} is a {link.domain.value}: messages pass through its "
                    "devices",
                    hint="without some of them the ring is broken; describe what is left of it",
                )

    @property
    def count(self) -> int:
        return len(self.devices)

    def listed(self, step: GroupStep) -> GroupList:
        """A step's groups as devices instead of ranks; all groups have buffers of one size."""
        groups = tuple(tuple(self.devices[rank] for rank in group) for group in step.groups)
        return GroupList(groups, (1.0,) * len(groups))

    def unit(self, rank: int, level: int) -> int:
        """The number of the unit of a level that holds a rank; level -1 is the whole machine."""
        inside = (
            self.system.hierarchy.devices_in_child(level) if level >= 0 else self.system.devices
        )
        return self.devices[rank] // inside

    def by_unit(self, ranks: Sequence[int], level: int) -> list[Ranks]:
        """Ranks grouped by their unit of a level, in the order of the units."""
        units: dict[int, list[int]] = {}
        for rank in ranks:
            units.setdefault(self.unit(rank, level), []).append(rank)
        return [tuple(units[unit]) for unit in sorted(units)]

    def units_left(self) -> str:
        """The number of units by their remaining devices, in words: ``3 node of 8 gpu, 1 of 7``."""
        names = self.system.hierarchy.names
        if len(names) == 1:
            return f"{self.count} {names[0]}"
        sizes = [len(unit) for unit in self.by_unit(range(self.count), len(names) - 2)]
        kinds = sorted(set(sizes), reverse=True)
        return ", ".join(f"{sizes.count(n)} {names[-2]} of {n} {names[-1]}" for n in kinds)


@dataclass(frozen=True)
class GroupProgram:
    """Steps over groups of ranks, for a payload of ``chunks`` chunks; ``texts`` describes them."""

    steps: tuple[GroupStep, ...]
    chunks: int
    texts: tuple[str, ...]

    @property
    def text(self) -> str:
        return "; ".join(self.texts)


@dataclass(frozen=True)
class _Part:
    """A part of the payload: its beginning and length as fractions of the whole."""

    begin: Fraction
    length: Fraction

    def cut(self, shares: int) -> list[_Part]:
        length = self.length / shares
        return [_Part(self.begin + i * length, length) for i in range(shares)]

    def chunks(self, total: int) -> frozenset[int]:
        return frozenset(range(int(self.begin * total), int((self.begin + self.length) * total)))


_NOTHING = _Part(Fraction(0), Fraction(0))
_Method = tuple[Collective, Collective]
_REDUCE: _Method = (Collective.REDUCE, Collective.BROADCAST)
_SCATTER: _Method = (Collective.REDUCE_SCATTER, Collective.ALL_GATHER)
_Team = tuple[Ranks, _Part]
"""Ranks that continue with the same part of the payload."""


@dataclass(frozen=True)
class _Draft:
    """A step whose pieces are fractions of the payload, not yet chunks."""

    collective: Collective
    groups: tuple[tuple[Ranks, tuple[_Part, ...]], ...]
    where: str

    def step(self, chunks: int) -> GroupStep:
        pieces = tuple(tuple(p.chunks(chunks) for p in parts) for _, parts in self.groups)
        return GroupStep(
            self.collective,
            tuple(g for g, _ in self.groups),
            pieces if self.collective.scatters else None,
        )


def level_programs(survivors: Survivors) -> Iterator[GroupProgram]:
    """All programs of the first family, each once; the plain all-reduce is the first."""
    levels = range(len(survivors.system.hierarchy.levels) - 2, -1, -1)
    seen = set()
    for methods in product((None, _REDUCE, _SCATTER), repeat=len(levels)):
        for last in (None, _REDUCE, _SCATTER):
            drafts = _draft_steps(survivors, list(zip(levels, methods, strict=True)), last)
            if not drafts:
                continue
            program = _finish_program(drafts)
            if program.steps not in seen:
                seen.add(program.steps)
                yield program


def _draft_steps(
    survivors: Survivors, cuts: Sequence[tuple[int, _Method | None]], last: _Method | None
) -> list[_Draft]:
    """The steps of one program; empty where a level's step does nothing or is impossible."""
    teams: list[_Team] = [(tuple(range(survivors.count)), _Part(Fraction(0), Fraction(1)))]
    forth: list[_Draft] = []
    back: list[_Draft] = []
    for level, method in cuts:
        if method is None:
            continue
        split = [(survivors.by_unit(ranks, level), part) for ranks, part in teams]
        where = f"inside each {survivors.system.hierarchy.names[level]}"
        shares = min(len(unit) for units, _ in split for unit in units)
        if method is _SCATTER:
            if shares < 2:
                return []
            teams = [
                (tuple(unit[i] for unit in units), part.cut(shares)[i])
                for units, part in split
                for i in range(shares)
            ]
            where += f" in {shares} shares"
        else:
            teams = [(tuple(unit[0] for unit in units), part) for units, part in split]
        groups = tuple(
            (unit, _equal_shares(part, shares, len(unit)) if method is _SCATTER else ())
            for units, part in split
            for unit in units
            if len(unit) > 1
        )
        if not groups:
            return []
        forth.append(_Draft(method[0], groups, where))
        back.insert(0, _Draft(method[1], groups, where))
    return [*forth, *_draft_all_reduce(teams, last), *back]


def _equal_shares(part: _Part, shares: int, members: int) -> tuple[_Part, ...]:
    """Equal shares for the first members, nothing for the others."""
    return (*part.cut(shares), *[_NOTHING] * (members - shares))


def _draft_all_reduce(teams: Sequence[_Team], last: _Method | None) -> list[_Draft]:
    """The all-reduce inside each team of ranks, in one step or as the two steps of ``last``."""
    active = [(ranks, part) for ranks, part in teams if len(ranks) > 1]
    if not active:
        return []
    where = f"among {len(active[0][0])}" + (f", {len(active)} times" if len(active) > 1 else "")
    groups = tuple(
        (ranks, tuple(part.cut(len(ranks))) if last is _SCATTER else ()) for ranks, part in active
    )
    return [_Draft(collective, groups, where) for collective in last or (Collective.ALL_REDUCE,)]


def _finish_program(drafts: Sequence[_Draft]) -> GroupProgram:
    """Cuts the payload into chunks such that each piece is a whole number of them."""
    parts = [part for draft in drafts for _, pieces in draft.groups for part in pieces]
    chunks = lcm(*((part.begin.denominator) for part in parts),
                *((part.length.denominator) for part in parts))  # fmt: skip
    return GroupProgram(
        tuple(draft.step(chunks) for draft in drafts),
        chunks,
        tuple(f"{draft.collective.value} {draft.where}" for draft in drafts),
    )
