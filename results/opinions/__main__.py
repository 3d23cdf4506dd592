"""A second opinion on prices: opinions.json and README.md.

Every placement and program of the cases of ``results.opinions.cases`` is expanded into messages and
followed by SimGrid as a fluid model: each distinct phase by itself, with and without what messages
wait for, and many programs from end to end, without barriers. Then the shares of links that
``synth.events.max_min`` gives are put to SimGrid on random flows. Needs a Python that has simgrid.

``--only WORD`` prints what it finds for systems whose name contains the word, and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

from scipy.stats import spearmanr

from hierarchies import System
from hierarchies.links import Network
from results import pages, record
from results.opinions.application import CIRCLES, How, Problem, phases_problem, problem
from results.opinions.asking import MISSING, interpreter, verdicts, version
from results.opinions.cases import PAYLOADS, Case, Pair, Pairs, cases, hows, segmented, systems
from results.opinions.fairness import fairness
from results.opinions.wires import Wires
from synth.collective.price.flows import simulate
from synth.collective.price.steps import InstructionPrice, total_seconds
from synth.collective.semantics.schedule import Exchange, Phase
from synth.events.overlap import makespan_seconds

COMMAND = "python -m results.opinions"
DATA = Path(__file__).with_name("opinions.json")
PIECES = 16
"""Into how many pieces chains and trees cut what goes along each of them."""
OTHER_PIECES = (4, 64, 256)
NEAR = 0.01
APART = 0.05
"""Two programs are ordered for sure if our prices are further apart than that."""
Kind = tuple[str, str, str]


class Court:
    """Puts problems to one judge; the same question is asked once."""

    def __init__(self) -> None:
        self._known: dict[Any, float] = {}
        self._queue: list[Problem] = []
        self._answers = verdicts(self._asked())
        self.messages = 0

    def _asked(self) -> Iterator[Problem]:
        while True:
            yield self._queue.pop()

    def seconds(self, key: Any, make: Callable[[], Problem]) -> float:
        if key not in self._known:
            asked = make()
            self.messages += len(asked["messages"])
            self._queue.append(asked)
            self._known[key] = next(self._answers)["seconds"]
        return self._known[key]


def short(number: float) -> float:
    """To six digits, as data has it."""
    return float(f"{number:.6g}")


def phase_key(phase: Phase, how: How) -> Any:
    """What two phases have in common that are the same messages."""
    if isinstance(phase, Exchange):
        groups = (phase.groups.shape, phase.groups.tobytes())
        return (phase.collective, *groups, phase.size_bytes, *how)
    return ("transpose", phase.devices.tobytes(), phase.size_bytes)


def bytes_alone(found: Problem) -> Problem:
    """The same problem where messages arrive as soon as they have left."""
    messages = [[route, size, 0.0, *rest] for route, size, _, *rest in found["messages"]]
    return found | {"messages": messages}


def waits_alone(found: Problem) -> Problem:
    """The same problem with messages that are empty."""
    messages = [[route, 0.0, *rest] for route, _, *rest in found["messages"]]
    return found | {"messages": messages}


@dataclass
class Phases:
    """What was found for the distinct phases of a kind: judge over ours."""

    whole: list[float] = field(default_factory=list)
    bytes_alone: list[float] = field(default_factory=list)
    waits_alone: list[float] = field(default_factory=list)
    systems: set[str] = field(default_factory=set)

    def told(self, kind: Kind) -> dict[str, Any]:
        collective, algorithm, spans = kind
        return {
            "collective": collective,
            "algorithm": algorithm,
            "spans": spans,
            "phases": len(self.whole),
            "systems": len(self.systems),
            "whole": spread(self.whole),
            "bytes_alone": spread(self.bytes_alone),
            "waits_alone": spread(self.waits_alone),
        }


def spread(ratios: Sequence[float]) -> dict[str, float]:
    """Median, extremes, and the share within ``NEAR`` of 1."""
    close = sum(abs(ratio - 1) <= NEAR for ratio in ratios)
    return {
        "lowest": short(min(ratios)),
        "median": short(median(ratios)),
        "highest": short(max(ratios)),
        "near": short(close / len(ratios)),
    }


class Study:
    """Compares prices and verdicts, case by case."""

    def __init__(self) -> None:
        self.court = Court()
        self.pairs = Pairs()
        self.systems = systems()
        self.kinds: dict[Kind, Phases] = {}
        self._seen: set[Any] = set()

    def case(self, case: Case) -> dict[str, Any]:
        """Ratios of judge over ours, and how far the two agree on the order of programs."""
        system = self.systems[case.system]
        found = [self._pair(system, case, pair) for pair in self.pairs.of(system, case)]
        ours = [one["ours"] for one in found]
        stepped = [one["stepped"] for one in found]
        told = {
            "system": case.system,
            "sizes": list(case.asked.sizes),
            "over": list(case.asked.over),
            "bytes": case.payload_bytes,
            "choice": case.choice.value,
            "pairs": len(found),
            "stepped": compared(ours, stepped),
            "worst": worst(found),
        }
        if case.whole:
            told["whole"] = compared(ours, [one["whole"] for one in found])
        return told

    def _pair(self, system: System, case: Case, pair: Pair) -> dict[str, Any]:
        steps = [
            self._phase(system, case, phase, price)
            for phase, price in zip(pair.schedule.phases, pair.prices, strict=True)
        ]
        told = {
            "placement": pair.placement,
            "program": pair.program,
            "ours": total_seconds(pair.prices),
            "stepped": sum(steps),
        }
        if case.whole:
            told["whole"] = self.whole(system, case, pair)
        return told

    def whole(self, system: System, case: Case, pair: Pair) -> float:
        """From end to end: devices go on when they can."""
        how = hows(pair.prices)
        phases = zip(pair.schedule.phases, how, strict=True)
        key = (case.system, case.segments, *(phase_key(*one) for one in phases))
        return self.court.seconds(key, lambda: problem(pair.schedule, how, Wires(system), PIECES))

    def _phase(self, system: System, case: Case, phase: Phase, price: InstructionPrice) -> float:
        """A phase by itself; noted with its kind when it is first met."""
        how = (price.algorithm, price.protocol)
        key = (case.system, phase_key(phase, how))

        def made() -> Problem:
            return phases_problem([phase], [how], Wires(system), PIECES)

        seconds = self.court.seconds((key, "whole"), made)
        if key not in self._seen and isinstance(phase, Exchange):
            self._seen.add(key)
            kind = self.kinds.setdefault(kind_of(system, phase, price), Phases())
            kind.whole.append(seconds / price.seconds)
            kind.systems.add(case.system)
            # Bytes and waits by themselves do not depend on the size of the payload.
            if case.payload_bytes != PAYLOADS[-1] and kind.bytes_alone:
                return seconds
            carried = self.court.seconds((key, "bytes"), lambda: bytes_alone(made()))
            kind.bytes_alone.append(carried / (price.seconds - price.latency_seconds))
            waited = self.court.seconds((key, "waits"), lambda: waits_alone(made()))
            kind.waits_alone.append(waited / price.latency_seconds)
        return seconds

    def segments(self, case: Case) -> dict[str, Any]:
        """Programs whose steps overlap: against both of our engines."""
        system = self.systems[case.system]
        ours, flowed, judged = [], [], []
        for pair in self.pairs.of(system, case):
            works = [price.work for price in pair.prices]
            ours.append(makespan_seconds(works, case.segments))
            followed = simulate(pair.schedule, pair.prices, Network.of(system))
            flowed.append(followed.seconds)
            judged.append(self.whole(system, case, pair))
        return {
            "system": case.system,
            "sizes": list(case.asked.sizes),
            "over": list(case.asked.over),
            "bytes": case.payload_bytes,
            "segments": case.segments,
            "pairs": len(ours),
            "overlap": compared(ours, judged),
            "flows": compared(flowed, judged),
        }


def kind_of(system: System, phase: Exchange, price: InstructionPrice) -> Kind:
    """Collective, algorithm, and what its groups span."""
    wires = Wires(system)
    columns = zip(*(wires.digits(int(device)) for device in phase.groups[0]), strict=True)
    spans = [level for level, column in enumerate(columns) if len({*column}) > 1]
    circles = any(system.links[level].domain in CIRCLES for level in spans)
    width = "one level" if len(spans) == 1 else "several levels"
    if phase.groups.shape[1] == 2:
        width = "two members"
    assert price.algorithm is not None
    told = f"{width}, circles" if circles else width
    return phase.collective.value, price.algorithm.value, told


def compared(ours: Sequence[float], judged: Sequence[float]) -> dict[str, Any]:
    """Ratios; order; and what it costs by the judge to take our first, over its own first."""
    ratios = [there / here for here, there in zip(ours, judged, strict=True)]
    first = min(range(len(ours)), key=lambda i: (ours[i], i))
    apart = right = 0
    for i, j in combinations(range(len(ours)), 2):
        low, high = sorted((i, j), key=lambda n: ours[n])
        if ours[high] > ours[low] * (1 + APART):
            apart += 1
            right += judged[high] > judged[low]
    return spread(ratios) | {
        "apart": apart,
        "right": right,
        "spearman": short(float(spearmanr(ours, judged).statistic)),
        "regret": short(judged[first] / min(judged)),
    }


def worst(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The pairs where the judge says least and most, against us."""
    ends = sorted(found, key=lambda one: one["stepped"] / one["ours"])
    return [
        {key: short(value) if isinstance(value, float) else value for key, value in one.items()}
        for one in (ends[0], ends[-1])
    ]


def pieces_of(study: Study) -> list[dict[str, Any]]:
    """Chains and trees over all devices, cut into more and more pieces."""
    told = []
    for name in ("2x4, 2 ports", "4x4, 4 ports", "l40s-pcie:2"):
        for kind, phase, price in longest(study, name):
            ratios = {}
            for pieces in (*OTHER_PIECES, PIECES):
                how = (price.algorithm, price.protocol)
                found = phases_problem([phase], [how], Wires(study.systems[name]), pieces)
                judged = study.court.seconds((name, kind, pieces), partial(dict, found))
                ratios[str(pieces)] = short(judged / price.seconds)
            told.append({"system": name, "kind": list(kind), "ratios": ratios})
    return told


def longest(study: Study, name: str) -> Iterator[tuple[Kind, Phase, InstructionPrice]]:
    """The single steps over all devices that are cut into pieces, by chains and by trees."""
    seen = set()
    for case in cases():
        if case.system == name and len(case.asked.sizes) == 1 and case.payload_bytes == 2**28:
            for pair in study.pairs.of(study.systems[name], case):
                for phase, price in zip(pair.schedule.phases, pair.prices, strict=True):
                    if not isinstance(phase, Exchange) or len(phase.groups) > 1:
                        continue
                    kind = kind_of(study.systems[name], phase, price)
                    if kind not in seen and kind[0] in ("reduce", "broadcast"):
                        seen.add(kind)
                        yield kind, phase, price


def computed(only: str = "") -> dict[str, Any]:
    """Everything, with one judge."""
    study = Study()
    some = [case for case in cases() if only in case.system]
    told = []
    for case in some:
        print(f"{case}: {study.court.messages} messages so far", file=sys.stderr)
        told.append(study.case(case))
    overlapping = [study.segments(case) for case in segmented() if only in case.system]
    kinds = [study.kinds[kind].told(kind) for kind in sorted(study.kinds)]
    found: dict[str, Any] = {"cases": told, "kinds": kinds, "segments": overlapping}
    if not only:
        found["pieces"] = pieces_of(study)
        found["fairness"] = fairness()
    return found | {"messages": study.court.messages, "simgrid": version(), "cut": PIECES}


def page(data: dict[str, Any]) -> pages.Page:
    """README.md with its sections about the second opinion as the data has them."""
    return pages.page("opinions", data=data)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="print the cases of systems whose name contains this")
    asked = parser.parse_args()
    if interpreter() is None:
        print(MISSING, file=sys.stderr)
        return 1
    if asked.only is not None:
        print(json.dumps(computed(asked.only), indent=1))
        return 0
    data = record.origin(COMMAND) | computed()
    pages.keep(DATA, data, page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
