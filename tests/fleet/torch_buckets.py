"""One rank of a DDP job that takes its buckets from a written file; see test_script.py.

The first word is the folder with the file. Beside a model with our buckets trains one that is in
plain DDP, on the same batches: after every step gradients are the same bits, as sums over two
ranks do not depend on what lies beside what. Prints the bytes of the buckets that DDP filled.
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 4


def model() -> nn.Module:
    """As ``tests/steps/mlp-tiny.step``, written down in torch."""
    torch.manual_seed(0)
    inner = (nn.Linear(32, 32), nn.ReLU())
    again = (nn.Linear(32, 32), nn.ReLU())
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), *inner, *again, nn.Linear(32, 8))


def train() -> None:
    import collsynth_buckets

    ours, plain = collsynth_buckets.wrap(model()), DistributedDataParallel(model())
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in (ours, plain)]
    draw = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(STEPS):
        batch = torch.randn(5, 16, generator=draw)
        for one, optimizer in zip((ours, plain), optimizers, strict=True):
            optimizer.zero_grad()
            one(batch).square().mean().backward()
            optimizer.step()
        for mine, theirs in zip(ours.parameters(), plain.parameters(), strict=True):
            assert torch.equal(mine.grad, theirs.grad)
            assert torch.equal(mine, theirs)
    print(ours._get_ddp_logging_data()["rebuilt_bucket_sizes"])
    try:
        collsynth_buckets.wrap(nn.Linear(3, 3))
    except ValueError as error:
        print(error)


sys.path.insert(0, sys.argv[1])
dist.init_process_group("gloo")
train()
dist.destroy_process_group()  # once models are gone: one that outlives it may never end, in any DDP
