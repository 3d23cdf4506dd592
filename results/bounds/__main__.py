"""How near the best answers come to what no schedule can beat: bounds.json and README.md.

The rule, stated before anything was computed: every system of the catalogue whose domains are all
switches, with 2, 4 and 8 children of the outermost level as long as it has no more than 300
devices; three axes, the number of devices factored as evenly as its prime factors allow, the
larger sizes first; every non-empty set of these axes; an all-reduce of 1 GiB, the best of all
placements. Those whose devices meet on one mesh, ring or torus are compared with a linear program
over flows instead (``optimum``), with 1, 2 and 4 outermost children and no more than 64 devices.
Steps take any algorithm that the links allow, also those that no runtime has: the question is how
near programs come, not what to do.

``--check`` computes everything again and compares it with what is there, without writing;
``--only WORD`` prints what it finds for systems whose name contains the word, and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import combinations
from math import prod
from pathlib import Path
from typing import Any

from hierarchies import Axis, Domain, Reduction, System, catalogue, load
from hierarchies.fabric import count_members, roles_of
from results import pages, record
from results.bounds import figures, optimum, reached
from results.bounds.figures import short, summed
from synth.collective.algorithms.algorithms import Choice
from synth.collective.price.bound import bound
from synth.collective.price.steps import total_busy_seconds
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Answer, Report, Request
from synth.collective.semantics.programs import Language

COMMAND = "python -m results.bounds"
DATA = Path(__file__).with_name("bounds.json")
PAYLOAD_BYTES = 2**30
SWITCHED, MOST_SWITCHED = (2, 4, 8), 300
MESHED, MOST_MESHED = (1, 2, 4), 64
NOMINAL = "dgx-h100:4"
UNUSED = 1e-9
"""What is left of the bandwidth of links that a group does not span."""


def evenly(number: int, parts: int = 3) -> tuple[int, ...]:
    """A number as a product of so many, each prime factor, the largest first, to the smallest."""
    sizes = [1] * parts
    for factor in sorted(_prime_factors(number), reverse=True):
        sizes[sizes.index(min(sizes))] *= factor
    return tuple(sorted(sizes, reverse=True))


def _prime_factors(number: int) -> Iterator[int]:
    divisor = 2
    while number > 1:
        while number % divisor == 0:
            yield divisor
            number //= divisor
        divisor += 1


def switched() -> tuple[str, ...]:
    """The systems of which all domains are switches, in the sizes of the rule."""
    return tuple(
        f"{name}:{count}"
        for name in catalogue()
        for count in SWITCHED
        if all(link.domain is Domain.SWITCH for link in load(name).links)
        and load(f"{name}:{count}").devices <= MOST_SWITCHED
    )


def meshed() -> tuple[str, ...]:
    """The systems that the linear program can do, in the sizes of the rule."""
    return tuple(
        f"{name}:{count}"
        for name in catalogue()
        for count in MESHED
        if load(f"{name}:{count}").devices <= MOST_MESHED
        and optimum.applies(load(f"{name}:{count}"))
    )


def cases(name: str) -> list[dict[str, Any]]:
    """The best answer for every non-empty set of the axes of a system."""
    system = replace(load(name), launches=False)
    axes = tuple(Axis(f"axis{i}", size) for i, size in enumerate(evenly(system.devices)))
    names = [axis.name for axis in axes]
    found = []
    for count in range(1, len(axes) + 1):
        for over in combinations(names, count):
            report = answers(
                system, Request(axes, over, PAYLOAD_BYTES, k=1, choice=Choice.ANY, exact=True)
            )
            found.append({"system": name} | _case(system, report))
    return found


def _case(system: System, report: Report) -> dict[str, Any]:
    """What there is to tell of a best answer; times in seconds, parts of the ratio as factors.

    ``ratio`` is the product of ``reach``: how far the bound is below the one that may only use the
    links of levels that the group spans; ``load``: how long the busiest link is busy, against
    that; ``waits``: the whole time against that of the busiest link.
    """
    [answer] = report.answers
    reduction, segments = answer.candidate.reduction, answer.candidate.segments
    seconds = answer.candidate.seconds
    spanned = bound(_within(system, reduction), reduction, PAYLOAD_BYTES).seconds
    busiest, busy = _busiest(answer)
    return {
        "axes": [axis.size for axis in report.request.axes],
        "over": list(report.request.over),
        "placement": str(reduction.placement),
        "members": {d.name: d.size for d in reduction.tree.digits},
        "program": answer.candidate.text,
        "algorithms": _algorithms(answer),
        "segments": segments,
        "limited_by": answer.limited_by,
        "busiest": busiest,
        "bound_level": answer.bound.level,
        "seconds": short(seconds),
        "bound_seconds": short(answer.bound.seconds),
        "ratio": short(seconds / answer.bound.seconds),
        "reach": short(spanned / answer.bound.seconds),
        "load": short(busy / spanned),
        "waits": short(seconds / busy),
        "beaten_by": _beaten_by(report),
    }


def _algorithms(answer: Answer) -> list[str]:
    prices = (price for stripe in answer.stripes for price in stripe.prices)
    return [price.algorithm.value for price in prices if price.algorithm]


def _within(system: System, reduction: Reduction) -> System:
    """The system without what a group has no use for: links of levels that it does not span.

    Levels that those it spans pass through stay as they are.
    """
    counts = [count_members(slots) for slots in roles_of(reduction, _all(reduction), ())]
    used = {level for level, count in enumerate(counts) if count > 1}
    used |= {inner for level in used for inner in system.through(level)}
    links = tuple(
        link
        if level in used
        else replace(link, bandwidth_bytes_per_second=UNUSED * link.bandwidth_bytes_per_second)
        for level, link in enumerate(system.links)
    )
    return replace(system, links=links)


def _all(reduction: Reduction) -> tuple[int, ...]:
    return tuple(range(len(reduction.tree.digits)))


def _busiest(answer: Answer) -> tuple[str, float]:
    """The resource that is busy longest in all segments of all stripes, and its seconds."""
    busy = total_busy_seconds([(stripe.prices, stripe.part.segments) for stripe in answer.stripes])
    return max(busy.items(), key=lambda item: item[1])


def _beaten_by(report: Report) -> list[str]:
    """What is faster than the first answer and should not be: a named default, no segments."""
    [answer] = report.answers
    seconds = answer.candidate.seconds
    others = {
        **answer.defaults.seconds,
        "the default of another placement": report.looked.best_default_seconds,
        "the same in one segment": answer.barrier_seconds,
    }
    return [name for name, other in others.items() if other < seconds]


def flows(name: str) -> list[dict[str, Any]]:
    """The best answer for all devices of a system against the linear program, for every goal."""
    system = replace(load(name), launches=False)
    found = []
    for goal in optimum.GOALS:
        language = Language(goal=goal)
        axis = Axis("all", system.devices)
        report = answers(
            system,
            Request((axis,), (axis.name,), PAYLOAD_BYTES, 1, language, Choice.ANY, exact=True),
        )
        [answer] = report.answers
        least = optimum.least_seconds(system, goal, PAYLOAD_BYTES)
        found.append(
            {
                "system": name,
                "devices": system.devices,
                "domain": system.links[-1].domain.value,
                "request": goal.value,
                "program": answer.candidate.text,
                "algorithms": _algorithms(answer),
                "segments": answer.candidate.segments,
                "seconds": short(answer.candidate.seconds),
                "optimum_seconds": short(least),
                "ratio": short(answer.candidate.seconds / least),
                "bound_ratio": short(answer.candidate.seconds / answer.bound.seconds),
                "beaten_by": _beaten_by(report),
            }
        )
    return found


def nominal() -> list[dict[str, Any]]:
    """All GPUs of a machine with a NIC for each: overlapped against barriers and a flat ring."""
    system = replace(load(NOMINAL), launches=False)
    axis = Axis("all", system.devices)
    found = []
    for size in (10**9, PAYLOAD_BYTES):
        [answer] = answers(
            system, Request((axis,), (axis.name,), size, k=1, choice=Choice.ANY, exact=True)
        ).answers
        seconds = answer.candidate.seconds
        found.append(
            {
                "system": NOMINAL,
                "bytes": size,
                "program": answer.candidate.text,
                "segments": answer.candidate.segments,
                "seconds": short(seconds),
                "over_barriers": short(answer.barrier_seconds / seconds),
                "over_ring": short(answer.defaults.seconds["ring"] / seconds),
            }
        )
    return found


def computed() -> dict[str, Any]:
    """Everything, on as many processes as there are cores; the largest systems first."""
    systems, others = switched(), meshed()
    with ProcessPoolExecutor() as pool:
        largest = sorted(systems, key=_work, reverse=True)
        jobs = {name: pool.submit(cases, name) for name in largest}
        compared = {name: pool.submit(flows, name) for name in reversed(others)}
        overlap = pool.submit(nominal)
        found = [case for name in systems for case in jobs[name].result()]
        listed = [case for name in others for case in compared[name].result()]
    by_system = {
        name: summed([case for case in found if case["system"] == name]) for name in systems
    }
    return {
        "all": summed(found),
        "systems": by_system,
        "cases": found,
        "flows": listed,
        "nominal": overlap.result(),
    }


def _work(name: str) -> tuple[int, int]:
    """Many levels make many programs."""
    hierarchy = load(name).hierarchy
    return len(hierarchy.levels), prod(hierarchy.cardinalities)


def page(data: dict[str, Any], requests: dict[str, Any] | None = None) -> pages.Page:
    """README.md as the data has it, and that of ``reached`` if it is not what is kept."""
    return pages.page(
        "bounds",
        data=data,
        targets=figures.targets(data),
        systems=figures.systems(data),
        far=figures.far(data),
        worst=figures.WORST,
        program=figures.program,
        **reached.values(requests or record.read(reached.DATA)),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--only", help="print the cases of systems whose name contains this")
    asked = parser.parse_args()
    if asked.only is not None:
        some = [case for name in switched() if asked.only in name for case in cases(name)]
        some += [case for name in meshed() if asked.only in name for case in flows(name)]
        print(json.dumps(some, indent=1))
        return 0
    data = record.origin(COMMAND) | computed()
    return pages.keep_or_check(DATA, data, page, check=asked.check)


if __name__ == "__main__":
    sys.exit(main())
