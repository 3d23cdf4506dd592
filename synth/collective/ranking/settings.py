"""What NCCL is told by its environment, for one call or for those of a program.

NCCL chooses by call: for its collective, group and size. A price takes each call by the algorithm
and the protocol that are fastest, or best for the whole program; where NCCL would choose otherwise
it must be told. It is told for a collective and a whole process: all calls of one collective go the
same way then. So where a program calls one collective in two ways, one of which is not NCCL's own,
no line of the environment says it; a tuner could, which is asked for each communicator.
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
"""What NCCL_PROTO calls them."""
Way = tuple[str, Protocol]
"""An algorithm, as ``RuntimeDefaults.options`` has it, and a protocol."""
Priced = tuple[Derivation, Sequence[InstructionPrice], int]
"""A program, the prices of the phases of one of its segments, and how many there are."""


@dataclass(frozen=True)
class RuntimeCall:
    """A call of a program: its price, and what the runtime would choose for it by itself."""

    price: InstructionPrice
    own: RuntimeDefaults

    @property
    def way(self) -> Way:
        """What the price takes it by; the algorithm's name where NCCL has no such way."""
        algorithm = self.price.algorithm
        had = (name for name in self.own.options if ALGORITHMS.get(name) is algorithm)
        return next(had, algorithm.value if algorithm else ""), self.price.protocol

    @property
    def own_way(self) -> Way:
        """What the runtime would take."""
        return self.own.chosen, self.own.protocol

    @property
    def said(self) -> str:
        """``all-reduce of 2 MiB among 4 by Tree LL128 (by itself Ring Simple)``."""
        price = self.price
        way, own_way = (spell_way(*one).replace(",", "") for one in (self.way, self.own_way))
        own = f" (by itself {own_way})" if own_way != way else ""
        who = f"{price.what} of {format_bytes(price.size_bytes)} among {prod(price.members)}"
        return f"{who} by {way}{own}"


@dataclass(frozen=True)
class RuntimeCalls:
    """The calls of programs side by side, and what these ask of links as priced.

    ``own_prices``: of each program the phases of one segment, if nothing is set.
    """

    each: tuple[RuntimeCall, ...]
    lanes: tuple[Lane, ...]
    own_prices: tuple[tuple[InstructionPrice, ...], ...]

    @classmethod
    def of(cls, simulator: Simulator, reduction: Reduction, programs: Sequence[Priced]) -> Self:
        """The calls of programs with the prices of their phases."""
        found, lanes = list[RuntimeCall](), list[Lane]()
        own: list[tuple[InstructionPrice, ...]] = []
        for derivation, prices, segments in programs:
            calls = list(_calls(simulator, derivation, reduction, prices))
            chosen = iter([call.own.baseline[0] for call in calls])
            own.append(tuple(next(chosen) if price.algorithm else price for price in prices))
            lanes.append(_lane(prices, segments))
            found += calls
        return cls(tuple(found), tuple(lanes), tuple(own))

    @cached_property
    def seconds(self) -> float:
        """As priced."""
        return makespan_within(self.lanes)

    @cached_property
    def own_seconds(self) -> float:
        """By what the runtime takes each call by itself."""
        own = zip(self.own_prices, self.lanes, strict=True)
        return makespan_within([_lane(prices, lane.segments) for prices, lane in own])

    @property
    def apart(self) -> tuple[RuntimeCall, ...]:
        """Those that the runtime would not take so, if that makes the program slower."""
        if self.own_seconds <= self.seconds * (1 + FINEST):
            return ()
        return tuple(call for call in self.each if call.way != call.own_way)

    @property
    def contrary(self) -> tuple[str, ...]:
        """The collectives to be told of that are called in several ways, which no line says."""
        told = dict.fromkeys(call.price.what for call in self.apart)
        return tuple(what for what in told if len(self._ways(what)) > 1)

    @property
    def line(self) -> str:
        """The line of the environment that makes the prices hold; empty if none does, or need."""
        told = {call.price.what: call.way for call in self.apart}
        named = all(name in SPELLINGS for name, _ in told.values())
        return collective_settings(told) if told and named and not self.contrary else ""

    @property
    def foreign(self) -> bool:
        """Whether a price takes an algorithm that the runtime does not have."""
        return any(call.way[0] not in call.own.options for call in self.each)

    @property
    def unsaid(self) -> bool:
        """Whether the program takes longer than priced, whatever is set."""
        return bool(self.apart) and not self.line

    @property
    def said(self) -> tuple[str, ...]:
        """What the price takes calls by, and what is to be set for that, in half sentences."""
        each = ", ".join(dict.fromkeys(call.said for call in self.each))
        return (f"its price takes {each}", *self._to_set())

    def _to_set(self) -> Iterator[str]:
        took = f"by the runtime's own choices the program takes {format_duration(self.own_seconds)}"
        if all(call.way == call.own_way for call in self.each):
            yield "the runtime takes all of these so by itself: set nothing"
        elif not self.apart:
            yield f"{took}, a tie within the prediction's uncertainty: set nothing"
        elif self.line:
            yield f"{took}; to have it as priced set {self.line}"
            yield explain_scope(*(call.price.what for call in self.apart))
        else:
            yield f"{took}, and no variable tells it otherwise{self._why_none()}"

    @property
    def tuned(self) -> bool:
        """Whether NCCL's tuner, which is asked for each communicator, tells all calls apart.

        Its table has rows for rings and trees of one program in one piece; calls of so many bytes
        among so many ranks are alike to it.
        """
        ways: dict[object, set[Way]] = {}
        for call in self.each:
            price = call.price
            if explain_missing_row(price.what, price.algorithm):
                return False
            alike = price.what, price.size_bytes, prod(price.members)
            ways.setdefault(alike, set()).add(call.way)
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


def _calls(
    simulator: Simulator,
    derivation: Derivation,
    reduction: Reduction,
    prices: Iterable[InstructionPrice],
) -> Iterator[RuntimeCall]:
    sent = [price for price in prices if price.algorithm]
    for move, price in zip(moves(derivation), sent, strict=True):
        what = move.instruction
        roles = roles_of(reduction, what.groups.free, what.groups.zero)
        yield RuntimeCall(
            price, defaults_of_call(simulator, what.collective, roles, price.size_bytes)
        )


def spell_way(name: str, protocol: Protocol) -> str:
    """A way in NCCL's words, as ``Ring, LL128``; what NCCL has no name for by ours."""
    return f"{SPELLINGS[name]}, {_PROTOCOLS[protocol]}" if name in SPELLINGS else name


def way_setting(
    what: str,
    ways: Iterable[str],
    algorithm: Algorithm | None,
    protocol: Protocol,
    by: CollectiveRuntime = CollectiveRuntime.NCCL,
) -> str:
    """The line of the environment by which NCCL takes an algorithm and a protocol for a collective.

    ``ways`` are those that there are, as ``RuntimeDefaults.options``. Empty where none of them is
    by the algorithm, or NCCL_ALGO has no name for it, or the runtime has no such variables.
    """
    named = [name for name in ways if ALGORITHMS.get(name) is algorithm and name in SPELLINGS]
    return collective_settings({what: (named[0], protocol)}) if named and by.told else ""


def collective_settings(ways: Mapping[str, Way]) -> str:
    """The line that gives some collectives their algorithm and protocol.

    It names the collectives. Without, it would hold for all that the process sends, and NCCL
    refuses what has no such algorithm ("no algorithm/protocol available for function AllGather ...
    NCCL_ALGO was set to Tree"). Names and signs are those of parseList in NCCL's tuning code.
    """
    told = {nccl_function_name(what): way for what, way in ways.items()}
    algorithms = ";".join(f"{one}:{SPELLINGS[name]}" for one, (name, _) in told.items())
    protocols = ";".join(f"{one}:{_PROTOCOLS[by]}" for one, (_, by) in told.items())
    quoted = "'" if len(told) > 1 else ""  # a shell ends a command at a semicolon
    return f"NCCL_ALGO={quoted}{algorithms}{quoted} NCCL_PROTO={quoted}{protocols}{quoted}"


def algorithm_setting(what: str, name: str) -> str:
    """The line that gives a collective its algorithm, and leaves the protocol to the runtime."""
    return f"NCCL_ALGO={nccl_function_name(what)}:{SPELLINGS[name]}"


def nccl_function_name(what: str) -> str:
    """What NCCL_ALGO calls a collective: ``allreduce`` for all-reduce, in any case of letters."""
    return what.replace("-", "")


def explain_scope(*what: str) -> str:
    """For what a line of the environment holds: more than for the call that it is meant for."""
    every = " and ".join(f"every {one}" for one in dict.fromkeys(what))
    return (
        f"it holds for the whole process, for {every} that it sends, whatever the size and the "
        "group, and for no other collective"
    )
