"""What the page says of bounds: aims, sums, and why an answer is above its bound."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

Data = dict[str, Any]
MEDIAN, WORST = 1.05, 1.15
OVER_BARRIERS, OVER_RING = 1.7, 1.15
OTHERS = "all but single steps of one switch that reduces"
TOLD = 1.01
"""A part of a ratio is told as a reason if it is above this."""


def short(number: float) -> float:
    """To six digits, as data has it."""
    return float(f"{number:.6g}")


def summed(found: Sequence[Data]) -> Data:
    """Median and worst of the ratios, and of the ratios to the bounds within the groups' reach."""
    ratios = [case["ratio"] for case in found]
    within = [case["ratio"] / case["reach"] for case in found]
    return {
        "cases": len(found),
        "median": short(median(ratios)),
        "worst": short(max(ratios)),
        "median_within": short(median(within)),
        "worst_within": short(max(within)),
    }


def targets(data: Data) -> list[tuple[str, str, str, bool]]:
    """What is aimed at, how far, what was found, and whether it is met."""
    whole, cases, overlap = data["all"], data["cases"] + data["flows"], data["nominal"]
    beaten = sum(bool(case["beaten_by"]) for case in cases)
    barriers = min(case["over_barriers"] for case in overlap)
    ring = min(case["over_ring"] for case in overlap)
    every = f"all devices of {overlap[0]['system']}"
    return [
        _at_most("best answer over bound, median", MEDIAN, whole["median"]),
        _at_most("best answer over bound, worst", WORST, whole["worst"]),
        _at_least(f"{every}: overlapped over its barrier version", OVER_BARRIERS, barriers),
        _at_least(f"{every}: overlapped over the flat ring", OVER_RING, ring),
        (
            f"first answers slower than a named default or than in one segment, of {len(cases)}",
            "0",
            str(beaten),
            not beaten,
        ),
    ]


def _at_most(what: str, limit: float, found: float) -> tuple[str, str, str, bool]:
    return what, f"at most {limit:.2f}", f"{found:.3f}", found <= limit


def _at_least(what: str, limit: float, found: float) -> tuple[str, str, str, bool]:
    return what, f"at least {limit:.2f}x", f"{found:.3f}x", found >= limit


def systems(data: Data) -> list[tuple[str, Data, int]]:
    """Each system and what it is summed with: the sums, and how many requests are above the aim."""
    others = [case for case in data["cases"] if not in_network(case)]
    sums = {**data["systems"], "all": data["all"], OTHERS: summed(others)}
    far = [case for case in data["cases"] if case["ratio"] > WORST]
    return [(name, one, sum(_of(case, name) for case in far)) for name, one in sums.items()]


def _of(case: Data, name: str) -> bool:
    return name in (case["system"], "all") or (name == OTHERS and not in_network(case))


def in_network(case: Data) -> bool:
    """Whether the best answer is one step of switches that reduce, on one level."""
    return set(case["algorithms"]) == {"in-network"} and len(case["members"]) == 1


def far(data: Data) -> list[tuple[str, ...]]:
    """Requests above the aim; those of alike machines with the same figures together."""
    together: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for case in sorted(data["cases"], key=lambda case: -case["ratio"]):
        if case["ratio"] > WORST:
            said = (f"{case['ratio']:.3f}", program(case), _groups(case), "; ".join(reasons(case)))
            over = "+".join(name.removeprefix("axis") for name in case["over"])
            together.setdefault(said, {}).setdefault(over, []).append(case["system"])
    rows: list[tuple[str, ...]] = []
    for (ratio, best, groups, why), where in together.items():
        machines: dict[str, list[str]] = {}
        for over, names in where.items():
            machines.setdefault(_sized(names), []).append(over)
        asked = "; ".join(f"over {' or '.join(o)} on {names}" for names, o in machines.items())
        rows.append((ratio, asked, groups, best, why))
    return rows


def _sized(names: list[str]) -> str:
    """Systems by name, each with its sizes: ``dgx-h100:2,4 and dgx-h200:2,4``."""
    sizes: dict[str, list[str]] = {}
    for name in names:
        machine, _, size = name.partition(":")
        sizes.setdefault(machine, []).append(size)
    return " and ".join(f"{machine}:{','.join(some)}" for machine, some in sizes.items())


def program(case: Data) -> str:
    """The program, how its steps are carried out, and its segments; of stripes all programs."""
    kinds = ", ".join(dict.fromkeys(case["algorithms"]))
    cut = f", {case['segments']} segments" if case["segments"] > 1 else ""
    if " | " in case["program"]:
        return f"`{case['program']}` side by side ({kinds})"
    return f"`{case['program']}` ({kinds}{cut})"


def _groups(case: Data) -> str:
    return " x ".join(f"{size} {name}" for name, size in case["members"].items())


def reasons(case: Data) -> list[str]:
    """Why a case is above its bound: each part of the ratio that matters, the largest first."""
    parts = {
        "reach": "the bound counts links that lead out of the levels that the group spans",
        "load": _loaded(case),
        "waits": _waits(case),
    }
    order = sorted(parts, key=lambda part: -case[part])
    return [f"{case[part]:.3f}: {parts[part]}" for part in order if case[part] > TOLD]


def _loaded(case: Data) -> str:
    """Why the busiest link carries more than the bound asks of it."""
    kinds, sizes = set(case["algorithms"]), list(case["members"].values())
    if in_network(case):
        k = sizes[0]
        if abs(case["load"] - (k + 1) / k) < 1e-3:
            return f"a switch that reduces for {k} moves {k + 1}/{k} buffers each way (NVLS)"
    if kinds == {"ring"} and len(sizes) == 1:
        return f"a ring moves {2 * (sizes[0] - 1)}/{sizes[0]} buffers over each {case['busiest']}"
    return f"the {case['busiest']} links carry more than an even share of what all links could"


def _waits(case: Data) -> str:
    if case["segments"] == 1:
        return "messages are waited for, and steps for each other"
    return f"{case['segments']} segments fill and drain, share links, and wait for messages"
