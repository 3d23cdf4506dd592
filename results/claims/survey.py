"""Prices of the plain all-reduce and of the best program on every placement of many requests.

A case is one placement of one request under one choice of algorithm. The set of requests is fixed
by a rule (``factorisations`` and every non-empty subset of the axes), not picked by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import mean, median
from typing import Any

from grammar import Instruction, parse, spell
from hierarchies import Axis, Placement, Reduction, System, Tree, load, placements
from synth.collective.algorithms.algorithms import Choice
from synth.collective.price.step_prices import Simulator
from synth.collective.semantics.layout import Move
from synth.collective.semantics.lowering import moves
from synth.collective.semantics.programs import Language, Vertex, explore_moves
from synth.collective.verify.rehearsal import derive_valid
from synth.search.best_first import PathGraph

Graph = PathGraph[Vertex, Move]
Over = tuple[str, ...]
INSIDE, ONE_EACH, BOTH = "inside one node", "one GPU of each node", "several GPUs of several nodes"
SPANNING = "spanning nodes"
REACHES = (INSIDE, ONE_EACH, BOTH)


@dataclass(frozen=True)
class Experiment:
    """The systems and the rule of the request set, as ``claims.toml`` states them.

    The payload is ``payload_bytes_per_node`` times the number of nodes, on each device; a program
    wins if it is more than ``wins_above`` times as fast as the plain all-reduce.
    """

    systems: tuple[str, ...]
    algorithms: tuple[str, ...]
    payload_bytes_per_node: int
    most_axes: int
    max_steps: int
    wins_above: float


@dataclass(frozen=True)
class Case:
    """One placement of one request: the plain all-reduce and the best program, in picoseconds."""

    system: str
    algorithm: str
    request: tuple[tuple[int, ...], Over]
    placement: str
    digits: tuple[str, ...]
    default_ticks: int
    best_ticks: int
    program: str

    @property
    def speedup(self) -> float:
        return self.default_ticks / self.best_ticks

    @property
    def reach(self) -> str:
        """Which links a reduction group uses: inside one node, between nodes, or both."""
        match self.digits:
            case ("gpu",):
                return INSIDE
            case ("node",):
                return ONE_EACH
            case _:
                return BOTH


def factorisations(number: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Every way to write a number as a product of so many factors of at least 2, in order."""
    if parts == 1:
        if number > 1:
            yield (number,)
        return
    for first in range(2, number):
        if number % first == 0:
            for rest in factorisations(number // first, parts - 1):
                yield (first, *rest)


def requests(devices: int, most_axes: int) -> Iterator[tuple[tuple[Axis, ...], Over]]:
    """Every ordered factorisation in 1 .. most_axes axes, with every non-empty set of them."""
    for count in range(1, most_axes + 1):
        names = [f"axis{i}" for i in range(count)]
        subsets = [over for size in range(1, count + 1) for over in combinations(names, size)]
        for sizes in factorisations(devices, count):
            axes = tuple(Axis(name, size) for name, size in zip(names, sizes, strict=True))
            for over in subsets:
                yield axes, over


class Surveyor:
    """Prices cases on one system with one choice of algorithms."""

    def __init__(self, name: str, algorithm: str, experiment: Experiment) -> None:
        self.name = name
        self.algorithm = algorithm
        self.system: System = load(name)
        self._simulator = Simulator(self.system, Choice(algorithm))
        self._experiment = experiment
        self._graphs: dict[int, Graph] = {}
        nodes = self.system.hierarchy.cardinalities[0]
        self.payload_bytes = experiment.payload_bytes_per_node * nodes

    def cases(self) -> Iterator[Case]:
        for axes, over in requests(self.system.devices, self._experiment.most_axes):
            for placement in placements(self.system.hierarchy, axes):
                yield self._case(placement, over)

    def _case(self, placement: Placement, over: Over) -> Case:
        reduction = Reduction(placement, over)
        plain = moves(derive_valid(parse("all-reduce root inside"), reduction.tree))
        default = sum(self._simulator.prices(plain, reduction, self.payload_bytes))
        best, program = self._best(reduction)
        return Case(
            self.name,
            self.algorithm,
            (tuple(axis.size for axis in placement.axes), over),
            str(placement),
            reduction.tree.names,
            default,
            best,
            program,
        )

    def _best(self, reduction: Reduction) -> tuple[int, str]:
        """The cheapest program; ties go to fewer steps, then to the spelling, as in the house."""
        graph = self._graph(len(reduction.tree.digits))
        prices = self._simulator.prices(graph.alphabet, reduction, self.payload_bytes)
        texts = [_spelled(move.instruction, reduction.tree) for move in graph.alphabet]
        ranks = {text: rank for rank, text in enumerate(sorted(set(texts)))}
        path = next(graph.cheapest(prices, [ranks[text] for text in texts]))
        return path.price, "; ".join(texts[label] for label in path.labels)

    def _graph(self, depth: int) -> Graph:
        if depth not in self._graphs:
            self._graphs[depth] = explore_moves(depth, Language(self._experiment.max_steps))
        return self._graphs[depth]


def _spelled(instruction: Instruction, tree: Tree) -> str:
    return str(spell(instruction, tree))


def survey(experiment: Experiment) -> list[Case]:
    """Every case of an experiment."""
    return [
        case
        for algorithm in experiment.algorithms
        for system in experiment.systems
        for case in Surveyor(system, algorithm, experiment).cases()
    ]


def by_request(cases: Sequence[Case]) -> dict[Any, list[Case]]:
    """Cases of the same system, algorithm and request together."""
    groups: dict[Any, list[Case]] = {}
    for case in cases:
        groups.setdefault((case.system, case.algorithm, case.request), []).append(case)
    return groups


def effect(group: Sequence[Case]) -> float:
    """How many times the slowest placement's plain all-reduce takes the fastest one's time."""
    ticks = [case.default_ticks for case in group]
    return max(ticks) / min(ticks)


def effects(cases: Sequence[Case]) -> dict[str, Any]:
    """What the choice of the placement alone decides, over requests that leave a choice."""
    groups = [group for group in by_request(cases).values() if len(group) > 1]
    worst = max(groups, key=effect)
    slowest = max(worst, key=lambda case: case.default_ticks)
    fastest = min(worst, key=lambda case: case.default_ticks)
    return {
        "requests": len(groups),
        "max": round(effect(worst), 2),
        "median": round(median(effect(group) for group in groups), 2),
        "of": {
            "system": worst[0].system,
            "axes": list(worst[0].request[0]),
            "reduce": list(worst[0].request[1]),
            "slowest": slowest.placement,
            "fastest": fastest.placement,
        },
    }


def wins(cases: Sequence[Case], above: float) -> dict[str, Any]:
    """How often, and by how much, the best program beats the plain all-reduce."""
    ratios = [case.speedup for case in cases]
    winning = [ratio for ratio in ratios if ratio > above]
    return {
        "cases": len(cases),
        "share": round(len(winning) / len(cases), 4),
        "share_any": round(sum(c.best_ticks < c.default_ticks for c in cases) / len(cases), 4),
        "max": round(max(ratios), 4),
        "mean_of_wins": round(mean(winning), 4) if winning else None,
        "mean_of_all": round(mean(ratios), 4),
    }


def breakdown(cases: Sequence[Case], above: float) -> dict[str, Any]:
    """``wins`` of all cases, and apart by the links that groups use and by the number of axes."""
    apart = {reach: [case for case in cases if case.reach == reach] for reach in REACHES}
    apart[SPANNING] = [case for case in cases if case.reach != INSIDE]
    most_axes = max(len(case.request[0]) for case in cases)
    for count in range(1, most_axes + 1):
        some = [case for case in cases if len(case.request[0]) == count]
        apart[f"any, requests of {count} {'axis' if count == 1 else 'axes'}"] = some
    return {
        "all": wins(cases, above),
        **{kind: wins(some, above) for kind, some in apart.items()},
    }


def winners(cases: Sequence[Case], above: float) -> dict[str, int]:
    """How often each program is the best one, among the cases that are won; frequent ones first."""
    counts: dict[str, int] = {}
    for case in cases:
        if case.speedup > above:
            counts[case.program] = counts.get(case.program, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
