"""Put plans in order as ``collsynth plan`` does, where all ran: ``python -m results.order``.

Takes every group of published plans of one model on one machine; nothing is fitted to any of them.
``--page`` writes the page from the data on disk; ``--check`` compares a fresh run with that data.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hierarchies.devices import device_named
from results import pages, record
from results.order.groups import FEWEST, Measured, elsewhere, groups, unread
from results.order.judged import Judged, estimated
from results.order.ranking import summed
from results.steps.__main__ import DATA as STEPS
from results.steps.composed import Numbers, Table, parts, table
from results.steps.hindrances import Late
from results.steps.protocol import fit, fitted_to
from results.steps.rows import Family, Row, families

COMMAND = "python -m results.order"
DATA = Path(__file__).with_name("order.json")
AIMS = {"first": 0.9, "regret": 0.05}
LARGE, LARGEST = 128, 512
"""Devices from which on machines are told of apart."""


def made() -> dict[str, Any]:
    """All figures."""
    numbers, hindrances = _fitted_to_others(), _hindrances()
    origin, found, judged = record.origin(COMMAND), [], Counter[str]()
    for group in groups():
        name, one = group.family.name, Judged(group)
        seconds = _table(group.family, group.plans).seconds(numbers[name])
        others = estimated(group.plans, seconds.tolist())
        late = hindrances.get(name, Late(np.inf, 0.0))
        print(group.name, file=sys.stderr)
        found.append(one.told() | {"others": others, "delayed": one.delayed(late)})
        judged.update(group.family.told["sets"])
    return origin | {
        "groups": found,
        "late": {
            name: {"devices": one.devices, "seconds": one.seconds}
            for name, one in hindrances.items()
        },
        "elsewhere": elsewhere(judged),
        "unread": unread(),
    }


def _fitted_to_others() -> dict[str, Numbers]:
    """For each family the numbers of ``results.steps`` that are fitted to all other families."""
    fitted = {}
    for family in families():
        rows = [row for row in family.rows if fitted_to(row)]
        fitted[family.name] = _table(family, rows), np.array([row.seconds for row in rows])
    return {name: fit(*(one for other, one in fitted.items() if other != name)) for name in fitted}


def _hindrances() -> dict[str, Late]:
    """What ``results.steps`` found hand-overs to take, by families of which it has found any."""
    return {
        one["name"]: Late(one["hindered"]["devices"], one["hindered"]["handed"])
        for one in record.read(STEPS)["families"]
        if one["hindered"]
    }


def _table(family: Family, several: Sequence[Row] | Sequence[Measured]) -> Table:
    told, device = family.told, device_named(family.told["device"])
    return table(
        [parts(one.shape, one.plan, told["machine"], device, told["layout"]) for one in several]
    )


def page(data: dict[str, Any]) -> pages.Page:
    """README.md with its section about the order of plans as the data has it."""
    every = data["groups"]
    classes = {
        "all": every,
        f"fewer than {LARGE} devices": [one for one in every if one["devices"] < LARGE],
        f"{LARGE} to 384": [one for one in every if LARGE <= one["devices"] < LARGEST],
        f"{LARGEST} devices": [one for one in every if one["devices"] >= LARGEST],
    }
    ways = ("plan", "advised", "composed", "delayed", "in_time", "others")
    sums = {
        name: {way: summed([one[way] for one in some if one[way]]) for way in ways}
        for name, some in classes.items()
    }
    return pages.page(
        "order", data=data, sums=sums, reasons=_reasons(every), aims=AIMS, fewest=FEWEST
    )


def _reasons(every: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Why plans that ran are not in order, the most frequent first."""
    found = Counter[str]()
    for one in every:
        found.update(one["refused"])
        found["need more memory than there is"] += (
            one["plans"] - one["fitting"] - sum(one["refused"].values())
        )
    return dict(found.most_common())


if __name__ == "__main__":
    sys.exit(pages.command(COMMAND, DATA, made, page))
