"""How much of the bound programs reach, request by request: reached.json and README.md.

The rule: the systems of ``SWITCHED`` with 2, 4, 8 and 16 children of the outermost level, one of
each kind in the catalogue; the meshes, rings and tori of ``MESHED``; one group of all devices; all
six requests; data-sheet prices with launches; 1 GiB by what the runtime has (``auto``) and by any
algorithm that the links allow (``any``), and 64 MiB by what the runtime has.

``--only WORD`` prints what it finds for systems whose name contains the word, and writes nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from grammar import Goal
from hierarchies import Axis, load
from results import pages, record
from results.bounds.figures import short
from synth.collective.algorithms.algorithms import Choice
from synth.collective.price.steps import total_busy_seconds
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Request
from synth.collective.semantics.programs import Language

COMMAND = "python -m results.bounds.reached"
DATA = Path(__file__).with_name("reached.json")
LARGE, SMALL = 2**30, 2**26
ASKED = ((LARGE, Choice.AUTO), (LARGE, Choice.ANY), (SMALL, Choice.AUTO))
SWITCHED = ("dgx-a100", "p2-a100", "dgx-h100", "dgx-b200", "gb200-nvl72", "l40s-pcie")
NODES = (2, 4, 8, 16)
MESHED = (
    "mi300x:1",
    "dgx1-v100:1",
    "aws-trn2:1",
    "aws-trn2-ultraserver:1",
    "tpu-v5e-slice:1x8",
    "tpu-v5e-slice:4x4",
    "tpu-v5e-slice:8x8",
    "tpu-v5e-slice:16x16",
    "tpu-v4-pod-slice:2x2x4",
    "tpu-v4-pod-slice:4x4x4",
    "tpu-v4-pod-slice:4x8x8",
)
SWITCHED_AIM, MESHED_AIM = 0.92, 0.90
Case = dict[str, Any]


def cases(name: str) -> list[Case]:
    """The best answer for every request, size and choice of algorithms."""
    return [_case(name, goal, size, choice) for (size, choice), goal in product(ASKED, Goal)]


def _case(name: str, goal: Goal, size: int, choice: Choice) -> Case:
    """``reached``: the bound over the time, the product of ``load``, the bound over the busy time
    of the busiest link, and ``busy``, that over the whole time.
    """
    system = load(name)
    axes = (Axis("all", system.devices),)
    request = Request(axes, ("all",), size, 1, Language(goal=goal), choice, exact=True)
    [answer] = answers(system, request).answers
    parts = [(stripe.prices, stripe.part.segments) for stripe in answer.stripes]
    busiest = max(total_busy_seconds(parts).values())
    seconds, least = answer.candidate.seconds, answer.bound.seconds
    waited = max(sum(price.latency_seconds for price in prices) for prices, _ in parts)
    return {
        "system": name,
        "request": goal.value,
        "bytes": size,
        "choice": choice.value,
        "program": answer.candidate.text,
        "segments": [stripe.part.segments for stripe in answer.stripes],
        "seconds": short(seconds),
        "bound_seconds": short(least),
        "reached": short(least / seconds),
        "load": short(least / busiest),
        "busy": short(busiest / seconds),
        "segment_latency_seconds": short(waited),
    }


def systems() -> tuple[str, ...]:
    """The systems of the rule."""
    return (*(f"{name}:{count}" for name in SWITCHED for count in NODES), *MESHED)


def computed() -> dict[str, Any]:
    """Everything, on as many processes as there are cores."""
    with ProcessPoolExecutor() as pool:
        return {"cases": [case for some in pool.map(cases, systems()) for case in some]}


# The page.


def rows(data: dict[str, Any]) -> list[tuple[str, str, list[str]]]:
    """Systems, the size and choice of algorithms, and the percentage of each request's bound."""
    found = []
    for name, (size, choice) in product(systems(), ASKED):
        some = _asked(data, size, choice, [name])
        found.append((name, _what(size, choice), [f"{100 * case['reached']:.0f}" for case in some]))
    return found


def _asked(data: dict[str, Any], size: int, choice: Choice, names: Sequence[str]) -> list[Case]:
    return [
        case
        for case in data["cases"]
        if case["system"] in names and (case["bytes"], case["choice"]) == (size, choice.value)
    ]


def _what(size: int, choice: Choice) -> str:
    amount = f"{size >> 30} GiB" if size >= 2**30 else f"{size >> 20} MiB"
    return f"{amount}, {choice.value}"


def summary(data: dict[str, Any]) -> list[tuple[str, str, int, int, str, str]]:
    """For switched and meshed systems and each choice: how many requests reach the aim."""
    found = []
    kinds = (("switched", SWITCHED_AIM, systems()[: -len(MESHED)]),
             ("meshes, rings and tori", MESHED_AIM, MESHED))  # fmt: skip
    for (kind, aim, names), (size, choice) in product(kinds, ASKED):
        reached = [case["reached"] for case in _asked(data, size, choice, names)]
        met = sum(share >= aim for share in reached)
        found.append(
            (
                f"{kind}, at least {100 * aim:.0f} %",
                _what(size, choice),
                met,
                len(reached),
                f"{100 * median(reached):.0f} %",
                f"{100 * min(reached):.0f} %",
            )
        )
    return found


def short_of(data: dict[str, Any]) -> list[Case]:
    """The cases of 1 GiB by the runtime's algorithms below their aim, the worst first."""
    found = [
        case
        for case in _asked(data, *ASKED[0], systems())
        if case["reached"] < (MESHED_AIM if case["system"] in MESHED else SWITCHED_AIM)
    ]
    return sorted(found, key=lambda case: float(case["reached"]))


def values(data: dict[str, Any]) -> dict[str, Any]:
    """What the page's templates read."""
    return {
        "reached": data,
        "requests": [goal.value for goal in Goal],
        "reached_summary": summary(data),
        "reached_rows": rows(data),
        "short_of": short_of(data),
    }


def _page(data: dict[str, Any]) -> pages.Page:
    from results.bounds import __main__ as bounds  # it reads this module

    return bounds.page(record.read(bounds.DATA), data)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--only", help="print the cases of systems whose name contains this")
    asked = parser.parse_args()
    if asked.only is not None:
        for line in _lines(asked.only):
            print(line, flush=True)
        return 0
    data = record.origin(COMMAND) | computed()
    return pages.keep_or_check(DATA, data, _page, check=asked.check)


def _lines(word: str) -> Iterator[str]:
    for name in systems():
        if word in name:
            for case in cases(name):
                share, what = 100 * case["reached"], f"{case['choice']:5}{case['request']:15}"
                yield f"{name:24}{case['bytes']:11} {what}{share:5.1f} % {case['program']}"


if __name__ == "__main__":
    sys.exit(main())
