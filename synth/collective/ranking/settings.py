"""NCCL environment settings that make a call, or the calls of a program, run as priced.

NCCL chooses algorithm and protocol for each call, from its collective, group and size. A price
assumes, for each call, the fastest algorithm and protocol or the best for the whole program; where
NCCL would choose otherwise it needs a setting. A setting holds for one collective in the whole
process. So if a program calls one collective in two ways and NCCL would not choose both by itself,
no environment variable expresses the program; a tuner plugin could, because NCCL asks it for each
communicator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Self

from hierarchies import Reduction
from hierarchies.fabric import roles_of
from hierarchies.units import format_bytes, format_duration
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.nccl_model import SPELLINGS
from synth.collective.algorithms.nccl_versions import DEFAULT, PER_COLLECTIVE, NcclVersion
from synth.collective.algorithms.protocols import Protocol
from synth.collective.algorithms.runtimes import CollectiveRuntime
from synth.collective.emit.nccl_tuner import explain_missing_row
from synth.collective.price.defaults import ALGORITHMS, RuntimeDefaults, defaults_of_call
from synth.collective.price.resolution import FINEST
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import InstructionPrice
from synth.collective.semantics.lowering import moves
from synth.collective.semantics.rules import Derivation
from synth.events.overlap import Lane, makespan_within

_PROTOCOLS = {Protocol.SIMPLE: "Simple", Protocol.LL: "LL", Protocol.LL128: "LL128"}
"""The names of protocols in NCCL_PROTO."""
Way = tuple[str, Protocol]
"""An algorithm's name, as in ``RuntimeDefaults.options``, and a protocol."""
PricedProgram = tuple[Derivation, Sequence[InstructionPrice], int]
"""A program, the prices of the phases of one of its segments, and its segment count."""


@dataclass(frozen=True)
class RuntimeCall:
    """One call of a program: its price, and the runtime's own choice for it."""

    price: InstructionPrice
    own: RuntimeDefaults

    @property
    def way(self) -> Way:
        """The way assumed by the price; the algorithm's own name where NCCL has no such way."""
        algorithm = self.price.algorithm
        had = (name for name in self.own.options if ALGORITHMS.get(name) is algorithm)
        return next(had, algorithm.value if algorithm else ""), self.price.protocol

    @property
    def own_way(self) -> Way:
        """The way that the runtime would choose."""
        return self.own.chosen, self.own.protocol

    @property
    def said(self) -> str:
        """``all-reduce of 2 MiB among 4 by Tree LL128 (by itself Ring Simple)``."""
        price = self.price
        way, own_way = (spell_way(*path).replace(",", "") for path in (self.way, self.own_way))
        own = f" (by itself {own_way})" if own_way != way else ""
        call = f"{price.what} of {format_bytes(price.size_bytes)} among {prod(price.members)}"
        return f"{call} by {way}{own}"


@dataclass(frozen=True)
class RuntimeCalls:
    """The calls of concurrent programs, and the load that they put on links as priced.

    ``own_prices``: for each program, the phases of one segment by the runtime's own choices.
    """

    each: tuple[RuntimeCall, ...]
    lanes: tuple[Lane, ...]
    own_prices: tuple[tuple[InstructionPrice, ...], ...]

    @classmethod
    def of(
        cls, simulator: Simulator, reduction: Reduction, programs: Sequence[PricedProgram]
    ) -> Self:
        """Returns the calls of programs, given the prices of their phases."""
        each, lanes = list[RuntimeCall](), list[Lane]()
        own: list[tuple[InstructionPrice, ...]] = []
        for derivation, prices, segments in programs:
            steps, chosen = iter(moves(derivation)), list[InstructionPrice]()
            for price in prices:
                if price.algorithm is None:
                    chosen.append(price)
                    continue
                instruction = next(steps).instruction
                roles = roles_of(reduction, instruction.groups.free, instruction.groups.zero)
                default = defaults_of_call(
                    simulator, instruction.collective, roles, price.size_bytes
                )
                each.append(RuntimeCall(price, default))
                chosen.append(default.baseline[0])
            own.append(tuple(chosen))
            lanes.append(_lane(prices, segments))
        return cls(tuple(each), tuple(lanes), tuple(own))

    @cached_property
    def seconds(self) -> float:
        """Seconds as priced."""
        return makespan_within(self.lanes)

    @cached_property
    def own_seconds(self) -> float:
        """Seconds by the runtime's own choices."""
        own = zip(self.own_prices, self.lanes, strict=True)
        return makespan_within([_lane(prices, lane.segments) for prices, lane in own])

    @property
    def apart(self) -> tuple[RuntimeCall, ...]:
        """Calls that the runtime would make otherwise, if that slows the program down."""
        if self.own_seconds <= self.seconds * (1 + FINEST):
            return ()
        return tuple(call for call in self.each if call.way != call.own_way)

    @property
    def contrary(self) -> tuple[str, ...]:
        """Collectives that need a setting but are called in several ways, so no setting fits."""
        collectives = dict.fromkeys(call.price.what for call in self.apart)
        return tuple(what for what in collectives if len(self._ways(what)) > 1)

    @property
    def line(self) -> str:
        """The settings that make the prices hold; empty if none do or none are needed."""
        ways = {call.price.what: call.way for call in self.apart}
        named = all(name in SPELLINGS for name, _ in ways.values())
        if not ways or not named or self.contrary:
            return ""
        version = self.each[0].own.version
        # A setting without names is of the other calls of the program, too.
        every = {call.price.what: call.way for call in self.each}
        return collective_settings(every if version < PER_COLLECTIVE else ways, version)

    @property
    def foreign(self) -> bool:
        """Whether a price assumes an algorithm that the runtime does not have."""
        return any(call.way[0] not in call.own.options for call in self.each)

    @property
    def unsaid(self) -> bool:
        """Whether the program is slower than priced under every setting."""
        return bool(self.apart) and not self.line

    @property
    def said(self) -> tuple[str, ...]:
        """Clauses on the ways that the price assumes and the settings they need."""
        calls = ", ".join(dict.fromkeys(call.said for call in self.each))
        return (f"its price takes {calls}", *self._to_set())

    def _to_set(self) -> Iterator[str]:
        own_time = (
            f"by the runtime's own choices the program takes {format_duration(self.own_seconds)}"
        )
        if all(call.way == call.own_way for call in self.each):
            yield "the runtime takes all of these so by itself: set nothing"
        elif not self.apart:
            yield f"{own_time}, a tie within the prediction's uncertainty: set nothing"
        elif self.line:
            yield f"{own_time}; to have it as priced set {self.line}"
            yield explain_scope(*(call.price.what for call in self.apart), line=self.line)
        else:
            yield f"{own_time}, and no variable tells it otherwise{self._why_none()}"

    @property
    def tuned(self) -> bool:
        """Whether an NCCL tuner, which is asked for each communicator, can select all ways.

        Its table has rows for rings and trees of one unsegmented program; it cannot
        distinguish calls of the same size among equally many ranks.
        """
        ways: dict[object, set[Way]] = {}
        for call in self.each:
            price = call.price
            if explain_missing_row(price.what, price.algorithm):
                return False
            key = price.what, price.size_bytes, prod(price.members)
            ways.setdefault(key, set()).add(call.way)
        whole = [lane.segments for lane in self.lanes] == [1]
        return whole and all(len(each) == 1 for each in ways.values())

    def _why_none(self) -> str:
        if not self.contrary:
            return ""
        why = f": {' and '.join(self.contrary)} would go two ways in one process"
        tuner = ". A tuner is asked for each communicator: --target nccl-tuner has a row for each"
        return f"{why}{tuner if self.tuned else ''}"

    def _ways(self, what: str) -> set[Way]:
        return {call.way for call in self.each if call.price.what == what}


def _lane(prices: Sequence[InstructionPrice], segments: int) -> Lane:
    return Lane(tuple(price.work for price in prices), segments)


def spell_way(name: str, protocol: Protocol) -> str:
    """Returns a way in NCCL's words, as ``Ring, LL128``, or our name if NCCL has none."""
    return f"{SPELLINGS[name]}, {_PROTOCOLS[protocol]}" if name in SPELLINGS else name


def way_setting(
    what: str,
    ways: Iterable[str],
    algorithm: Algorithm | None,
    protocol: Protocol,
    by: CollectiveRuntime = CollectiveRuntime.NCCL,
    version: NcclVersion = DEFAULT,
) -> str:
    """Returns the settings by which NCCL runs a collective by an algorithm and a protocol.

    ``ways``: the names available, as in ``RuntimeDefaults.options``. Empty if none of them uses
    the algorithm, if NCCL_ALGO has no name for it, or if the runtime has no such variables.
    """
    named = [name for name in ways if ALGORITHMS.get(name) is algorithm and name in SPELLINGS]
    return collective_settings({what: (named[0], protocol)}, version) if named and by.told else ""


def collective_settings(ways: Mapping[str, Way], version: NcclVersion = DEFAULT) -> str:
    """Returns the settings that give each collective its algorithm and protocol.

    Before ``PER_COLLECTIVE`` a setting names no collective, so there is one for all, or none: "".

    They name the collectives: otherwise they would apply to every call of the process, and NCCL
    refuses a collective without such an algorithm ("no algorithm/protocol available for function
    AllGather ... NCCL_ALGO was set to Tree"). The syntax is parseList's in NCCL's tuning code.
    """
    if version < PER_COLLECTIVE:
        if len({*ways.values()}) != 1:
            return ""
        [(name, protocol)] = {*ways.values()}
        return f"NCCL_ALGO={SPELLINGS[name]} NCCL_PROTO={_PROTOCOLS[protocol]}"
    by_function = {nccl_function_name(what): way for what, way in ways.items()}
    algorithms = ";".join(
        f"{function}:{SPELLINGS[name]}" for function, (name, _) in by_function.items()
    )
    protocols = ";".join(
        f"{function}:{_PROTOCOLS[protocol]}" for function, (_, protocol) in by_function.items()
    )
    quoted = "'" if len(by_function) > 1 else ""  # a shell ends a command at a semicolon
    return f"NCCL_ALGO={quoted}{algorithms}{quoted} NCCL_PROTO={quoted}{protocols}{quoted}"


def algorithm_setting(what: str, name: str) -> str:
    """Returns the setting for the algorithm of a collective, or of all if ``what`` is empty.

    It leaves the protocol to the runtime.
    """
    return f"NCCL_ALGO={f'{nccl_function_name(what)}:' * bool(what)}{SPELLINGS[name]}"


def nccl_function_name(what: str) -> str:
    """Returns the name of a collective in NCCL_ALGO, as ``allreduce``; NCCL ignores its case."""
    return what.replace("-", "")


def is_process_wide(line: str) -> bool:
    """Whether a setting names no collective, so that it holds for all that a process sends."""
    return line.startswith("NCCL_ALGO=") and ":" not in line


def explain_scope(*what: str, line: str = "") -> str:
    """Returns the scope of a setting in words: it is wider than the call it is meant for.

    ``line``: the setting, if it may be one that names no collective, as before ``PER_COLLECTIVE``.
    """
    if line and is_process_wide(line):
        return (
            "it holds for the whole process, for every collective that it sends, whatever the "
            f"size and the group: NCCL before {PER_COLLECTIVE} reads no names of collectives"
        )
    every = " and ".join(f"every {collective}" for collective in dict.fromkeys(what))
    return (
        f"it holds for the whole process, for {every} that it sends, whatever the size and the "
        "group, and for no other collective"
    )
