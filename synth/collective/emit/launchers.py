"""Rank placement files for the launchers that start the processes of a job.

Ranks are numbered by the axes as given, or in a framework's order if the options name one; in
machine order launchers need no file. A launcher knows hosts and counts the processes of one host in
the order of their ranks; a separate mapping gives each process its device, by the order in which
the process sees devices.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from hierarchies import Devices, InputError, Placement, System, error_context
from synth.collective.emit.conventions import BY_COORDINATES, level_of_hosts
from synth.collective.emit.frameworks import FRAMEWORKS
from synth.collective.emit.mesh import RankOrder, mesh
from synth.collective.emit.source import EmitOptions, EmitSource, Files

_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class PlacedSystem:
    """A placement on a system; ``options`` may name the hosts, and the level of hosts."""

    system: System
    placement: Placement
    options: EmitOptions = field(default_factory=EmitOptions)


Placed = EmitSource | PlacedSystem


def host_level(source: Placed) -> int:
    """Returns the position of the level whose units are hosts; -1 if the machine is one host.

    Raises InputError if the options name a level that does not exist.
    """
    hierarchy = source.placement.hierarchy
    name = source.options.host_level
    if name is not None:
        with error_context("host level"):
            return hierarchy.index(name)
    return level_of_hosts(hierarchy)


def hosts(source: Placed) -> tuple[str, ...]:
    """Returns the names of the hosts, in the order of the hierarchy.

    Raises InputError if the names given do not match the number of hosts, repeat, or contain
    characters that some launcher does not accept.
    """
    count = prod(source.placement.hierarchy.cardinalities[: host_level(source) + 1])
    given = source.options.hosts
    if not given:
        return tuple(f"host{number}" for number in range(count))
    if len(given) != count:
        raise InputError(f"{len(given)} host names", where="hosts", hint=f"there are {count} hosts")
    if len(set(given)) != count:
        raise InputError("a host name is given twice", where="hosts", hint="name each host once")
    for name in given:
        if not _HOST.fullmatch(name):
            raise InputError(
                f"host name {name!r}", where="hosts", hint="letters, digits, '-', '.' and '_'"
            )
    return given


def places(source: Placed) -> Devices:
    """Returns the host of every device and its number there, shape (devices, 2)."""
    hierarchy = source.placement.hierarchy
    devices = np.arange(hierarchy.devices)
    return np.stack(np.divmod(devices, hierarchy.devices_in_child(host_level(source))), axis=1)


def seats(source: Placed) -> Devices:
    """Returns the host of every rank and its device's number there, shape (ranks, 2)."""
    return np.asarray(places(source)[_devices(source)])


def rankfile(source: Placed) -> Files:
    """Returns an Open MPI rankfile, and the script that gives each rank its device."""
    names, ranks = hosts(source), seats(source)
    run = f"-n {len(ranks)} bash on_device.sh PROGRAM"
    how = [
        f"Open MPI 5: mpirun --map-by rankfile:file=rankfile --bind-to none {run}",
        f"Open MPI 4: mpirun --rankfile rankfile {run}",
        "The number after slot= names a core, not a device: a rank is bound to the core of its",
        "device's number unless --bind-to none is given. on_device.sh gives it the device.",
    ]
    lines = [
        f"rank {rank}={names[host]} slot={slot}" for rank, (host, slot) in enumerate(ranks.tolist())
    ]
    return {
        "rankfile": _text([*_header(source, how), *lines]),
        "on_device.sh": _device_script(source, "OMPI_COMM_WORLD_RANK", how),
    }


def slurm(source: Placed) -> Files:
    """Returns a host file for Slurm's srun, and the script that gives each task its device.

    The host file has no comments, because each line is a task.
    """
    names, ranks = hosts(source), seats(source)
    run = f"--ntasks={len(ranks)} bash on_device.sh PROGRAM"
    how = [
        f"SLURM_HOSTFILE=./slurm_hostfile srun --distribution=arbitrary {run}",
        "Line r of slurm_hostfile is the host of task r (SLURM_PROCID), so it has no comments.",
        "Hosts go by Slurm's node names. Do not give srun --nodes. Allocate whole hosts, and GPUs",
        "by node (--gpus-per-node), not by task: every task must see all devices of its host.",
    ]
    return {
        "slurm_hostfile": _text([names[host] for host, _ in ranks.tolist()]),
        "on_device.sh": _device_script(source, "SLURM_PROCID", how),
    }


def torchrun(source: Placed) -> Files:
    """Returns a Python module that maps torchrun's host and local rank to the placement's rank.

    torchrun itself can only number host by host.
    """
    header = _header(
        source,
        [
            "Start the processes of host i of HOSTS with torchrun --node-rank=i and static",
            "rendezvous (--master-addr ...; with --rdzv-backend=c10d torchrun numbers the hosts as",
            "they come), then, before anything asks for the rank:",
            "    import collsynth_ranks",
            "    collsynth_ranks.apply()  # sets RANK",
            "    torch.distributed.init_process_group()",
            "LOCAL_RANK stays the number of the device on its host. RANK is no longer",
            "GROUP_RANK * LOCAL_WORLD_SIZE + LOCAL_RANK, so take the device from LOCAL_RANK.",
        ],
    )
    body = f'''
import os

HOSTS = {_rows(map(json.dumps, hosts(source)))}
# RANKS[host][local device]
RANKS = {_rows(map(str, _ranks_by_host(source)))}


def rank(host=None, device=None):
    """The rank of a device of a host: of this process, unless they are given."""
    host = int(os.environ["GROUP_RANK"]) if host is None else host
    device = int(os.environ["LOCAL_RANK"]) if device is None else device
    return RANKS[host][device]


def apply():
    """Set RANK and WORLD_SIZE, which torch.distributed and the frameworks on it read."""
    os.environ["RANK"] = str(rank())
    os.environ["WORLD_SIZE"] = str(sum(map(len, RANKS)))
'''
    return {"collsynth_ranks.py": _text(header) + body}


def jax_devices(source: EmitSource) -> Files:
    """Returns the order of ``jax.devices()`` that makes a mesh of the parallelism axes.

    A TPU's chips are identified by coordinates, because their ids count hosts of 2 x 2 chips.
    """
    source = replace(source, options=replace(source.options, rank_order=RankOrder.AXES))
    axes = source.placement.axes
    by_id = "sorted(jax.devices(), key=lambda device: device.id)"
    counted = "The ids must count the machine's devices host by host, in the order of 'hosts'."
    if source.system.is_torus:
        by_id = BY_COORDINATES
        counted = "Levels are z, y, x of d.coords, of one slice from its corner on."
    body = {
        "about": _about(source),
        "use": [
            "plan = json.load(open('jax_devices.json'))",
            f"devices = {by_id}",
            "mesh = Mesh(numpy.array(devices)[plan['order']].reshape(plan['shape']), plan['axes'])",
            counted,
        ],
        "hosts": list(hosts(source)),
        "axes": [axis.name for axis in axes],
        "shape": [axis.size for axis in axes],
        "order": _devices(source).tolist(),
    }
    return {"jax_devices.json": _json(body)}


def kubernetes(source: Placed) -> Files:
    """Returns a ConfigMap with the ranks of each pod, for jobs of one pod a host."""
    count = len(hosts(source))
    header = _header(
        source,
        [
            "kubectl apply -f ranks.yaml, and mount the ConfigMap. ranks[i][d] is the rank of the",
            f"process for device d of pod i, in an Indexed Job of {count} completions: i is",
            "JOB_COMPLETION_INDEX (in a StatefulSet the ordinal, the last part of the pod's name).",
            "Kubernetes does not put pod i on host i: where the hosts are not all alike, read",
            "spec.nodeName by the downward API and take i = hosts.index(nodeName) instead.",
        ],
    )
    body = {
        "about": _about(source),
        "hosts": list(hosts(source)),
        "ranks": [list(row) for row in _ranks_by_host(source)],
    }
    head = [
        "apiVersion: v1",
        "kind: ConfigMap",
        "metadata:",
        "  name: collsynth-ranks",
        "data:",
        "  ranks.json: |",
    ]
    lines = [f"    {line}" for line in _json(body).splitlines()]
    return {"ranks.yaml": _text([*header, *head, *lines])}


def _devices(source: Placed) -> Devices:
    """Returns the device of every rank."""
    return mesh(source.placement, rank_order(source)).devices


def rank_order(source: Placed) -> RankOrder:
    """Returns how ranks are counted: by the axes, unless the options name a framework."""
    chosen = source.options.rank_order
    return RankOrder.AXES if chosen is RankOrder.MACHINE else chosen


def _ranks_by_host(source: Placed) -> list[tuple[int, ...]]:
    """Returns for each host the ranks of its devices."""
    rank_of = np.argsort(_devices(source))
    return [tuple(row) for row in rank_of.reshape(len(hosts(source)), -1).tolist()]


def _about(source: Placed) -> dict[str, Any]:
    placement = source.placement
    return {
        "system": source.system.name,
        "hierarchy": str(placement.hierarchy),
        "axes": {axis.name: axis.size for axis in placement.axes},
        "placement": [list(row) for row in placement.matrix],
        "rank_order": rank_order(source).value,
    }


def _header(source: Placed, how: list[str]) -> list[str]:
    """Returns comment lines that explain the ranks of a file, and how to use the file."""
    placement, order = source.placement, rank_order(source)
    axes = ", ".join(f"{axis.name}={axis.size}" for axis in placement.axes)
    counted = [placement.axes[place].name for place in order.slowest_first(placement.axes)]
    whose = "as given" if order is RankOrder.AXES else f"as {FRAMEWORKS[order.value].title} does"
    return [
        f"# collsynth: ranks for placement {placement} of {axes}",
        f"# on {source.system.name}: {placement.hierarchy}.",
        f"# Ranks count the axes {whose}: {', '.join(counted)}, the last one fastest; code emitted",
        f"# for this job must use the same rank order ({order.value}).",
        *(f"# {line}" for line in how),
    ]


def _device_script(source: Placed, variable: str, how: list[str]) -> str:
    """Returns a script that shows a process its host's devices, in the order of their ranks.

    Launchers number a host's processes by rank, so local process i finds its device at position i,
    where programs expect it.
    """
    ranks = seats(source)
    visible = [ranks[ranks[:, 0] == host, 1].tolist() for host in range(len(hosts(source)))]
    body = [
        f"host_of_rank=({' '.join(str(host) for host, _ in ranks.tolist())})",
        "# for each host its devices in the order of their ranks; local process i uses the i-th",
        "devices=(",
        *(f"  {','.join(map(str, row))}" for row in visible),
        ")",
        "export CUDA_DEVICE_ORDER=PCI_BUS_ID",
        f'export CUDA_VISIBLE_DEVICES="${{devices[${{host_of_rank[${variable}]}}]}}"',
        'exec "$@"',
    ]
    return _text(["#!/usr/bin/env bash", *_header(source, how), *body])


def _rows(rows: Iterable[str]) -> str:
    """Returns a Python tuple, one entry a line."""
    return "\n".join(["(", *(f"    {row}," for row in rows), ")"])


def _json(body: dict[str, Any]) -> str:
    """Returns JSON with one key a line, so that long lists of numbers stay readable."""
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in body.items())
    return f"{{\n{lines}\n}}\n"


def _text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"
