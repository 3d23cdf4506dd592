"""One rank of a PyTorch job that uses emitted files for one request each; see test_torch.py.

Eight ranks with data=4 over 2 x 2 of 2 x 4 devices, model=2 beside it; experts over data.
"""

import os
import sys
import warnings
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

STEPS = 3


def model() -> nn.Module:
    torch.manual_seed(0)  # odd sizes: some ranks have no row of a parameter
    return nn.Sequential(nn.Linear(7, 13), nn.Tanh(), nn.Linear(13, 3), nn.Linear(3, 1))


def trained(made: nn.Module) -> list[torch.Tensor]:
    """The whole parameters after some steps on data of this rank's own."""
    optimizer = torch.optim.SGD(made.parameters(), lr=0.1)
    draw = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(STEPS):
        optimizer.zero_grad()
        made(torch.randn(5, 7, generator=draw)).square().mean().backward()
        optimizer.step()
    return [parameter.full_tensor() for parameter in made.parameters()]


def sharded(mesh: DeviceMesh, **more) -> nn.Module:
    made = model()
    for part in made:
        if isinstance(part, nn.Linear):
            fully_shard(part, mesh=mesh, **more)
    fully_shard(made, mesh=mesh, **more)
    return made


def counted(fast, kind: str) -> list[int]:
    """From now on, the elements of all inputs that go through the program."""
    sizes: list[int] = []
    run = getattr(fast, kind).__call__

    def noted(self, output, given):
        sizes.append(given.numel())
        return run(self, output, given)

    getattr(fast, kind).__call__ = noted
    return sizes


def parity_of_fsdp2(gather, scatter) -> None:
    """Fully sharded over data, and as HSDP with replicas over model; in bfloat16, too."""
    meshes = gather.device_mesh("cpu")
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    gathered, summed = counted(gather, "AllGather"), counted(scatter, "ReduceScatter")
    replicas = DeviceMesh("cpu", meshes.mesh.t(), mesh_dim_names=("model", "data"))
    for mesh in (meshes["data"], replicas):
        for more in ({}, {"mp_policy": policy}):
            wanted = trained(sharded(mesh, **more))
            made = sharded(mesh, **more)
            gather.install_fsdp2(made)
            scatter.install_fsdp2(made)
            assert not gathered
            assert not summed
            for one, other in zip(trained(made), wanted, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
            assert len(gathered) >= 3 * STEPS
            assert len(summed) >= 3 * STEPS
            gathered.clear()
            summed.clear()
    other = sharded(meshes["model"])
    gather.install_fsdp2(other)
    with pytest.raises(RuntimeError, match=r"sharded over the ranks .*device_mesh"):
        trained(other)


def groups_for_code_that_takes_one(gather, scatter, exchange, reduce, broadcast) -> None:
    """As torch.distributed's own calls on the plain group, for integers that no order changes."""
    rank = dist.get_rank()
    plain = gather.program().group
    draw = torch.Generator().manual_seed(rank)
    one, whole = (torch.randint(-99, 99, (n,), generator=draw) for n in (5, 20))

    def both(call, size: int, given: torch.Tensor, fast) -> None:
        found, wanted = torch.zeros(size, dtype=torch.int64), torch.zeros(size, dtype=torch.int64)
        call(found, given, group=fast.synthesized_group())
        call(wanted, given, group=plain)
        assert torch.equal(found, wanted)

    sizes = [counted(f, k) for f, k in ((gather, "AllGather"), (scatter, "ReduceScatter"))]
    both(dist.all_gather_single, 20, one, gather)
    both(dist.reduce_scatter_single, 5, whole, scatter)
    both(dist.all_to_all_single, 20, whole, exchange)
    assert sizes == [[5], [20]]
    first = gather.program().first
    for fast, call in ((reduce, dist.reduce), (broadcast, dist.broadcast)):
        found, wanted = whole.clone(), whole.clone()
        call(found, first, group=fast.synthesized_group())
        call(wanted, first, group=plain)
        if fast is broadcast or rank == first:
            assert torch.equal(found, wanted)
    group = scatter.synthesized_group()
    most = torch.tensor([rank])
    dist.all_reduce(most, dist.ReduceOp.MAX, group=group)
    assert most.item() == max(dist.get_process_group_ranks(plain))
    found = torch.zeros(20, dtype=torch.int64)
    dist.all_gather_single(found, one, group=group)  # by the plain group


def experts(exchange) -> None:
    """Tokens to the ranks of their experts and back, with gradients, as by plain all-to-alls."""
    mine = exchange.program().member
    draw = torch.Generator().manual_seed(dist.get_rank())
    blocks = torch.randn(8, 3, generator=draw, requires_grad=True)
    found = exchange.exchange(blocks)
    wanted = torch.zeros(8, 3)
    dist.all_to_all_single(wanted, blocks.detach(), group=exchange.program().group)
    assert torch.equal(found, wanted)
    (found * (1 + mine)).sum().backward()
    scale = torch.arange(1.0, 5.0).repeat_interleave(2)[:, None]
    assert torch.equal(blocks.grad, scale.expand(8, 3))  # block i was scaled by rank i

    counts = torch.randint(0, 4, (4,), generator=draw)
    rows = torch.randn(int(counts.sum()), 3, generator=draw, requires_grad=True)
    got, come = exchange.exchange_rows(rows, counts)
    wanted = torch.zeros(int(come.sum()), 3)
    dist.all_to_all_single(
        wanted, rows.detach(), come.tolist(), counts.tolist(), group=exchange.program().group
    )
    assert torch.equal(got, wanted)
    back, sent = exchange.exchange_rows(got * 2, come)
    assert torch.equal(sent, counts)
    assert torch.equal(back, rows * 2)
    back.sum().backward()
    assert torch.equal(rows.grad, torch.full_like(rows, 2))


def odd_tensors(gather, scatter, exchange) -> None:
    """Shapes and strides as they come, nothing at all, and sizes that do not fit."""
    rank = dist.get_rank()
    turned = torch.arange(6, dtype=torch.int32).view(2, 3).t() + rank
    found = gather.all_gather(torch.zeros(4, 3, 2, dtype=torch.int32), turned)
    group = dist.get_process_group_ranks(gather.program().group)
    for place, other in enumerate(group):
        assert torch.equal(found[place], turned - rank + other)
    out = torch.zeros(2, 8).t()[:, :1]
    scatter.reduce_scatter(out, torch.ones(32))
    assert torch.equal(out, torch.full((8, 1), 4.0))
    flags = torch.tensor([rank % 3 == 0, True])
    assert gather.all_gather(torch.zeros(8, dtype=torch.bool), flags).sum() > 0
    assert exchange.all_to_all(torch.empty(0), torch.empty(0)).numel() == 0
    with pytest.raises(ValueError, match="an input of 3 elements has 1 pieces of 3: too many"):
        gather.all_gather(torch.zeros(13), torch.zeros(3))


def main(folder: Path) -> None:
    sys.path.insert(0, str(folder))
    store = (folder / "store").as_uri()
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=8)
    import all_gather
    import all_to_all
    import broadcast
    import reduce
    import reduce_scatter

    odd_tensors(all_gather, reduce_scatter, all_to_all)
    experts(all_to_all)
    groups_for_code_that_takes_one(all_gather, reduce_scatter, all_to_all, reduce, broadcast)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parity_of_fsdp2(all_gather, reduce_scatter)
    print("done", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
