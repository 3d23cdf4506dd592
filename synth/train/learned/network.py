"""A small graph network in plain PyTorch: attention of each operation over those that it touches.

As DisCo's estimator of fused operations (arXiv 2209.12769): layers of attention over the sub-graph,
put together, and seconds from that. Here it says the logarithm of how far ``rates`` is off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2

import numpy as np
import torch
from torch import Tensor, nn

from synth.train.learned.kernels import KINDS, LANES, OUTSIDE, Kernel, features
from synth.train.learned.rungs import Network, fit_rates
from synth.train.learned.samples import Sample

WIDTH = 32
EPOCHS = 60
BATCH = 64
_SCALE = 1 / 20
"""Of logarithms, so that inputs are about 1."""

_NODE = len(KINDS) + 8


class Attending(nn.Module):
    """One layer: each operation takes from itself and, by attention, from its neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Linear(WIDTH, WIDTH)
        self.others = nn.Linear(WIDTH, WIDTH)
        self.asks = nn.Linear(WIDTH, WIDTH)
        self.answers = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, near: Tensor) -> Tensor:
        """``x`` [kernels, operations, WIDTH], ``near`` [kernels, operations, operations]."""
        scores = self.asks(x) @ self.answers(x).transpose(1, 2) / WIDTH**0.5
        weights = scores.masked_fill(~near, -1e9).softmax(-1) * near
        return x + torch.relu(self.own(x) + weights @ self.others(x))


class Net(nn.Module):
    """Two such layers; sums and maxima of operations, and the features of all, to one number."""

    def __init__(self, whole: int) -> None:
        super().__init__()
        self.enter = nn.Linear(_NODE, WIDTH)
        self.first, self.second = Attending(), Attending()
        self.mixed = nn.Linear(2 * WIDTH + whole, WIDTH)
        self.last = nn.Linear(WIDTH, 1)

    def forward(self, nodes: Tensor, near: Tensor, there: Tensor, whole: Tensor) -> Tensor:
        """Of each kernel; ``there`` says which operations are not padding."""
        x = self.second(self.first(torch.relu(self.enter(nodes)), near), near)
        x = x * there[..., None]
        several = torch.cat([x.mean(1), x.amax(1), whole], dim=-1)
        found: Tensor = self.last(torch.relu(self.mixed(several)))[:, 0]
        return found


def fit_network(samples: Sequence[Sample]) -> Network:
    """Of the logarithm of how far rates are off; the same for the same samples.

    By one thread: products are so small that several wait for each other, six times as long.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _fitted(samples)
    finally:
        torch.set_num_threads(threads)


def _fitted(samples: Sequence[Sample]) -> Network:
    torch.manual_seed(0)
    rates = fit_rates(samples)
    kernels = [one.kernel for one in samples]
    off = np.log(np.array([one.seconds for one in samples]) / rates.seconds(kernels))
    given, aim = _tensors(kernels), torch.tensor(off, dtype=torch.float32)
    net = Net(given[3].shape[1])
    steps = EPOCHS * -(-len(samples) // BATCH)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(EPOCHS):
        for some in torch.split(torch.randperm(len(samples)), BATCH):
            optimizer.zero_grad()
            made = net(*(one[some] for one in given))
            nn.functional.smooth_l1_loss(made, aim[some], beta=0.3).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    weights = {name: _rows(one) for name, one in net.state_dict().items()}
    return Network(rates, weights)


def said(weights: Mapping[str, Sequence[Sequence[float]]], kernels: Sequence[Kernel]) -> np.ndarray:
    """What the network with these weights says. Raises ValueError for weights of another."""
    given = _tensors(kernels)
    net = Net(given[3].shape[1])
    shapes = {name: one.shape for name, one in net.state_dict().items()}
    if shapes.keys() != weights.keys():
        raise ValueError("weights of another network")
    found = {name: torch.tensor(rows).reshape(shapes[name]) for name, rows in weights.items()}
    net.load_state_dict(found)
    with torch.no_grad():
        said_of_each: np.ndarray = net(*given).numpy().astype(float)
    return said_of_each


def _rows(weight: Tensor) -> tuple[tuple[float, ...], ...]:
    flat = weight.reshape(weight.shape[0], -1).tolist()
    return tuple(tuple(float(f"{one:.6g}") for one in row) for row in flat)


def _tensors(kernels: Sequence[Kernel]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    most = max(len(one.parts) for one in kernels)
    nodes = np.zeros((len(kernels), most, _NODE), dtype=np.float32)
    near = np.zeros((len(kernels), most, most), dtype=bool)
    there = np.zeros((len(kernels), most), dtype=np.float32)
    for number, kernel in enumerate(kernels):
        for at, part in enumerate(kernel.parts):
            sizes = (part.flops, part.read_bytes, part.made_bytes, part.minor)
            logs = [_SCALE * log2(1 + one) for one in sizes]
            nodes[number, at, KINDS.index(part.kind)] = 1
            left = (part.minor % LANES) / part.minor
            said = (left, part.strided, part.kept, OUTSIDE in part.reads)
            nodes[number, at, len(KINDS) :] = (*logs, *said)
            there[number, at] = 1
            for other in part.reads:
                if other != OUTSIDE:
                    near[number, at, other] = near[number, other, at] = True
    whole = _SCALE * np.array([features(one) for one in kernels], dtype=np.float32)
    tensors = (torch.from_numpy(one) for one in (nodes, near, there, whole))
    first, second, third, fourth = tensors
    return first, second, third, fourth
