"""Seconds of a step: layers by rooflines, collectives by the planner, a pipeline by a formula.

``parts`` says what of a step is known before any step was measured; ``Numbers`` are the handful
that say what rooflines and prices do not: how much of both is reached, and what the host needs to
launch a layer. A stage takes what its device, its host or the gathering of its weights takes,
whichever is longest; a pipeline takes every stage once and its slowest for every further
microbatch. A simulator of events takes ``parts`` apart into tasks and replaces ``seconds``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from grammar import Goal
from hierarchies.devices import Device
from results.steps.local import ADDED, Work, head, layer
from results.steps.network import DATA, TENSOR, Network, Price
from results.steps.shapes import Plan, Shape, even_stages, stages, stages_as_built
from synth.compute import bytes_estimate

Floats = npt.NDArray[np.float64]
Stages = Callable[[Shape, Plan], list[tuple[int, bool]]]
LAYOUTS: dict[str, Stages] = {
    "by parameters": stages,
    "as built": stages_as_built,
    "even": even_stages,
}

TENSORS_OF_A_LAYER = 7
"""Weights of a layer, each of which replicas reduce by itself."""

OPTIMIZER_BYTES = 28
"""A parameter's gradient, weight and two moments in four bytes each, read; all but the gradient
written, which is set to zero."""


@dataclass(frozen=True)
class Numbers:
    """What is fitted. Factors of what rooflines and prices say, and seconds of the host.

    ``layer`` for launching a layer forward and backward, ``call`` for each collective between
    parts of tensors, ``peer`` more of it for each part where stages hand on to other nodes
    meanwhile, ``stage`` for each microbatch that a stage hands on. Of collectives between parts of
    tensors ``tensor`` is a factor, and ``wait`` that of their latency where they span nodes.
    """

    products: float = 1.0
    moved: float = 2.0
    tensor: float = 1.0
    wait: float = 1.0
    data: float = 1.0
    update: float = 1.5
    layer: float = 1.5e-3
    call: float = 3e-4
    peer: float = 1e-5
    stage: float = 1e-3

    @property
    def values(self) -> Floats:
        return np.array([getattr(self, one.name) for one in fields(self)])


@dataclass(frozen=True)
class Parts:
    """Of one step, in seconds: by stage those of a microbatch, and what is done once."""

    micros: int
    chunks: int
    products: tuple[float, ...]
    moved: tuple[float, ...]
    layers: tuple[int, ...]
    calls: tuple[int, ...]
    tensor: tuple[float, ...]
    waits: tuple[float, ...]
    wide: bool
    peers: int
    gathered: tuple[float, ...]
    send: float
    data: float
    update: float


def parts(shape: Shape, plan: Plan, machine: str, device: Device, layout: str) -> Parts:
    """What a step is made of. Raises InputError for an element type without a matrix rate."""
    split = LAYOUTS[layout](shape, plan)
    network = Network(machine, plan)
    one, last = layer(shape, plan, device), head(shape, plan, device)
    works = [one * count + (last if has_head else Work()) for count, has_head in split]
    rows = plan.micro * shape.sequence
    calls = _calls(rows, shape, plan, network)
    most = max(
        count * shape.layer_parameters + has_head * shape.head_parameters
        for count, has_head in split
    )
    held = most / plan.tensor
    return Parts(
        plan.micros,
        plan.chunks,
        tuple(work.products for work in works),
        tuple(work.moved for work in works),
        tuple(count for count, _ in split),
        tuple(count * len(calls) for count, _ in split),
        tuple(count * sum(one.seconds - one.latency for one in calls) for count, _ in split),
        tuple(count * sum(one.latency for one in calls) for count, _ in split),
        plan.tensor > network.per_node,
        plan.tensor * (plan.pipe > 1 and plan.devices > network.per_node),
        tuple(count * _gathered(shape, plan, network) for count, _ in split),
        2 * network.send(2 * rows * shape.hidden / (plan.tensor if plan.spread else 1)),
        _data(held, max(count for count, _ in split), plan, network),
        bytes_estimate(
            int(OPTIMIZER_BYTES * held / (plan.data if plan.sharded else 1)), device, ADDED
        ).seconds,
    )


def _calls(rows: int, shape: Shape, plan: Plan, network: Network) -> list[Price]:
    """The collectives between parts of tensors that a layer has in all.

    With sequence parallelism an all-gather and a reduce-scatter for each of two blocks and each
    direction, and one all-gather more in each block backward; else an all-reduce.
    """
    if plan.tensor == 1:
        return []
    size, again = 2 * rows * shape.hidden, round(2 * plan.again)
    if not plan.spread:
        return [network.price(Goal.ALL_REDUCE, TENSOR, size)] * (4 + again)
    gather = network.price(Goal.ALL_GATHER, TENSOR, size)
    scatter = network.price(Goal.REDUCE_SCATTER, TENSOR, size)
    return [gather] * (6 + again) + [scatter] * (4 + again)


def _gathered(shape: Shape, plan: Plan, network: Network) -> float:
    """Seconds of a layer's weights that come from all replicas twice, and its gradient's going."""
    if plan.sharded < 3 or plan.data == 1:
        return 0.0
    size = 2 * shape.layer_parameters / plan.tensor
    gather = network.price(Goal.ALL_GATHER, DATA, size).seconds
    return 2 * gather + network.price(Goal.REDUCE_SCATTER, DATA, size).seconds


def _data(held: float, layers: int, plan: Plan, network: Network) -> float:
    """Seconds to reduce gradients (four bytes) over replicas and to gather weights (two)."""
    if plan.data == 1 or plan.sharded == 3:
        return 0.0
    calls = TENSORS_OF_A_LAYER * layers + 2
    size = 4 * held / calls
    if not plan.sharded:
        return calls * network.price(Goal.ALL_REDUCE, DATA, size).seconds
    scatter = network.price(Goal.REDUCE_SCATTER, DATA, size).seconds
    return calls * (scatter + network.price(Goal.ALL_GATHER, DATA, size / 2).seconds)


@dataclass(frozen=True)
class Table:
    """Parts of many steps as arrays, shape (steps, stages), with zeros where there is no stage."""

    micros: Floats
    products: Floats
    moved: Floats
    layers: Floats
    calls: Floats
    tensor: Floats
    waits: Floats
    wide: Floats
    peers: Floats
    gathered: Floats
    handed: Floats
    send: Floats
    data: Floats
    update: Floats
    chunks: Floats

    def seconds(self, numbers: Numbers) -> Floats:
        """Of each step; shape (steps,)."""
        device = numbers.products * self.products + numbers.moved * self.moved
        wait = np.where(self.wide, numbers.wait, numbers.tensor)
        device = device + numbers.tensor * self.tensor + wait[:, None] * self.waits
        called = numbers.call + numbers.peer * self.peers
        host = numbers.layer * self.layers + called[:, None] * self.calls
        stage = np.maximum(np.maximum(device, host), numbers.data * self.gathered)
        stage = stage + self.handed * (self.send[:, None] + numbers.stage)
        slowest, whole = stage.max(axis=1), stage.sum(axis=1)
        run = self.micros * slowest + (whole - slowest) / self.chunks
        return np.asarray(run + numbers.data * self.data + numbers.update * self.update)


def table(some: Sequence[Parts]) -> Table:
    """Parts of several steps, to be priced at once."""
    most = max(len(one.products) for one in some)

    def by_stage(name: str) -> Floats:
        found = np.zeros((len(some), most))
        for row, one in zip(found, some, strict=True):
            values = getattr(one, name)
            row[: len(values)] = values
        return found

    def once(name: str) -> Floats:
        return np.array([getattr(one, name) for one in some], dtype=float)

    handed = np.zeros((len(some), most))
    for row, one in zip(handed, some, strict=True):
        row[: len(one.products)] = len(one.products) > 1
    return Table(
        once("micros"),
        by_stage("products"),
        by_stage("moved"),
        by_stage("layers"),
        by_stage("calls"),
        by_stage("tensor"),
        by_stage("waits"),
        once("wide"),
        once("peers"),
        by_stage("gathered"),
        handed,
        once("send"),
        once("data"),
        once("update"),
        once("chunks"),
    )
