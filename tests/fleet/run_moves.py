"""Runs the function of an emitted file on parts that are given for every device.

``run_moves.py jax|torch FOLDER``: of ``given.npz`` there, whose arrays have devices as their first
dimension, it makes ``made.npz``. JAX has all devices in one process; PyTorch is run once a rank.
"""

import os
import runpy
import sys
from pathlib import Path

import numpy as np


def in_jax(folder: Path) -> None:
    import jax
    from jax.sharding import Mesh
    from jax.sharding import PartitionSpec as P

    names = runpy.run_path(str(folder / "step.py"))
    given = [
        one.view(jax.numpy.bfloat16) if name.endswith("bf16") else one
        for name, one in np.load(folder / "given.npz").items()
    ]
    axes = names["AXES"]
    mesh = Mesh(np.array(jax.devices()).reshape(tuple(axes.values())), tuple(axes))

    def of_device(stacked):
        return [one[None] for one in names["device_step"]([one[0] for one in stacked])]

    by_device = P(tuple(axes))
    step = jax.shard_map(
        of_device, mesh=mesh, in_specs=(by_device,), out_specs=by_device, check_vma=False
    )
    save(folder, [np.asarray(one) for one in jax.jit(step)(given)])


def in_torch(folder: Path) -> None:
    import torch
    import torch.distributed as dist

    names = runpy.run_path(str(folder / "step.py"))
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    meeting = (folder / "rendezvous").as_uri()
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world)
    names["make_groups"]()
    given = [torch.as_tensor(one[rank]) for one in np.load(folder / "given.npz").values()]
    made = [one.contiguous() for one in names["device_step"](given)]
    found = []
    for one in made:
        parts = [torch.empty_like(one) for _ in range(world)]
        dist.all_gather(parts, one)
        found.append(torch.stack(parts).numpy())
    if rank == 0:
        save(folder, found)
    dist.barrier()
    dist.destroy_process_group()


def save(folder: Path, made: list[np.ndarray]) -> None:
    np.savez(folder / "made.npz", **dict(map(stored, range(len(made)), made)))


def stored(at: int, one: np.ndarray) -> tuple[str, np.ndarray]:
    """An array and its name; numpy's files do not know bfloat16, so these are words."""
    narrow = one.dtype.name == "bfloat16"
    return (f"x{at}_bf16", one.view(np.uint16)) if narrow else (f"x{at}", one)


if __name__ == "__main__":
    {"jax": in_jax, "torch": in_torch}[sys.argv[1]](Path(sys.argv[2]))
