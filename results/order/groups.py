"""Groups of measured plans of one model on one machine, and what became of all other rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from hierarchies import load
from results.order.offers import Asked
from results.steps.composed import LAYOUTS
from results.steps.rows import Family, Raw, Row, census, crashed, families, raw_rows, told
from results.steps.shapes import Plan, Shape

FEWEST = 8
"""Plans that a group has at least."""

RATES = (
    *("step_seconds", "samples_per_s", "samples_per_s_per_gpu", "tokens_per_s"),
    *("tokens_per_s_per_gpu", "tflops_per_gpu", "mfu_percent"),
)
PLAN = (
    *("framework", "global_batch", "micro_batch", "grad_acc", "dtype", "tp", "sp", "pp", "vpp"),
    *("pp_schedule", "dp", "fsdp_zero", "cp", "ep", "recompute", "overlap"),
)
COLUMNS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "tp": (("model", "accelerator", "accels", "seq"), PLAN),
    "replicas": (("cluster", "model", "replicas", "local_batch"), ("placement",)),
}
"""Of sets that have one column those whose rows can be compared, and those of what was run."""

NOT_JUDGED = {
    "bigscience_jeanzay": "on V100, whose rows do not have the sizes of their models",
    "megatron_bridge_perf": "GB200 and GB300: one recipe by release and precision",
    "pollux_t4_ddp": "replicas on parts of nodes; a plan has all devices of its machine",
    "zero_bubble_paper": "several batches; of one batch four plans",
}
"""Why groups of sets that are read elsewhere are none here."""


@dataclass(frozen=True)
class Measured:
    """A plan that ran: ``seconds`` of a step, of repeated runs in the middle."""

    shape: Shape
    plan: Plan
    seconds: float

    @property
    def each(self) -> float:
        """Seconds of a sample: not all runs of a group have as many in a batch."""
        return self.seconds / self.plan.sequences


@dataclass(frozen=True)
class Group:
    """All that ran of one model on so many devices, and ``crashed``: what was tried and has not."""

    name: str
    family: Family
    plans: Sequence[Measured]
    crashed: Sequence[tuple[Shape, Plan]]

    @property
    def devices(self) -> int:
        return self.plans[0].plan.devices

    def layers(self, shape: Shape, plan: Plan) -> Sequence[int]:
        """Those of each stage, by the text of the framework; none where it has no stages."""
        told = self.family.told
        if plan.pipe == 1:
            return ()
        return [one for one, _ in LAYOUTS[told.get("beside", told["layout"])](shape, plan)]

    def asked(self, shape: Shape, plan: Plan) -> Asked:
        """The question whose answer has such a plan."""
        told = self.family.told
        nodes = plan.devices // load(f"{told['machine']}:1").devices
        return Asked(shape, plan.sequences, f"{told['machine']}:{nodes}", told["device"])


def groups() -> Iterator[Group]:
    """Those of ``FEWEST`` plans and more, of all families that are read."""
    tried = crashed()
    for family in families():
        several: defaultdict[str, list[Row]] = defaultdict(list)
        for row in family.rows:
            several[row.group].append(row)
        for name, rows in several.items():
            plans = list(_measured(rows))
            if len(plans) >= FEWEST:
                yield Group(name, family, plans, sorted(tried.get(name, ()), key=str))


def _measured(rows: Sequence[Row]) -> Iterator[Measured]:
    """Repeated runs as one."""
    alike: defaultdict[tuple[Shape, Plan], list[Row]] = defaultdict(list)
    for row in rows:
        alike[row.shape, row.plan].append(row)
    for (shape, plan), some in alike.items():
        yield Measured(shape, plan, median(row.seconds for row in some))


def elsewhere(judged: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """Sets with groups that are not judged, by their columns: how many groups, and why not.

    ``judged``: how many groups of each set are.
    """
    reasons = {**told()["not_yet"], **NOT_JUDGED}
    found = {}
    for name in census():
        rows = raw_rows(name)
        many = sum(one >= FEWEST for one in _counted(rows).values()) - judged.get(name, 0)
        if many > 0:
            found[name] = {"groups": many, "why": reasons[name]}
    return found


def unread() -> list[str]:
    """Sets whose columns do not say what was run."""
    return [name for name in census() if not any(one in raw_rows(name)[0] for one in COLUMNS)]


def _counted(rows: Sequence[Raw]) -> Counter[tuple[str, ...]]:
    """By what is compared how many configurations have a rate."""
    for column, (same, plan) in COLUMNS.items():
        if column in rows[0]:
            ran = {
                (tuple(raw[name] for name in same), tuple(raw.get(name) for name in plan))
                for raw in rows
                if any(raw.get(name) for name in RATES)
            }
            return Counter(of for of, _ in ran)
    return Counter()
