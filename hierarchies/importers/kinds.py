"""The table of kinds of files that can be imported, and the one way through it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hierarchies.errors import InputError, nearest
from hierarchies.importers.draft import Draft
from hierarchies.importers.networks import ibnetdiscover, jax_dump, kubernetes, topograph
from hierarchies.importers.nodes import hwloc, nccl_xml, nvidia_smi, rocm_smi
from hierarchies.importers.options import Options
from hierarchies.importers.slurm import slurm


@dataclass(frozen=True)
class Kind:
    """What a kind of file is, and the function from texts (by the files' names) to a draft."""

    what: str
    read: Callable[[Mapping[str, str], Options], Draft]


KINDS: Mapping[str, Kind] = {
    "nvidia-smi": Kind("what nvidia-smi topo -m prints", nvidia_smi.read),
    "nccl-xml": Kind("what NCCL or RCCL writes to NCCL_TOPO_DUMP_FILE", nccl_xml.read),
    "rocm-smi": Kind("what rocm-smi --showtopo or amd-smi topology --json prints", rocm_smi.read),
    "hwloc": Kind("what lstopo --of xml prints", hwloc.read),
    "slurm": Kind("topology.conf, topology.yaml or what scontrol show topology prints", slurm.read),
    "topograph": Kind("the JSON of topograph's graph engine, or one of its models", topograph.read),
    "kubernetes": Kind("what kubectl get nodes -o json prints", kubernetes.read),
    "jax": Kind(f"the JSON that this prints:\n{jax_dump.SNIPPET}", jax_dump.read),
    "ibnetdiscover": Kind("what ibnetdiscover prints", ibnetdiscover.read),
}


def kind_named(name: str) -> Kind:
    """The row of a kind. Raises InputError if there is none."""
    if name not in KINDS:
        raise InputError(f"no kind of file {name!r}", hint=nearest(name, KINDS))
    return KINDS[name]


def import_texts(kind: str, files: Mapping[str, str], options: Options | None = None) -> Draft:
    """What texts, by the names of their files, say of a system. Raises InputError, naming one."""
    read = kind_named(kind).read
    if not files:
        raise InputError("no file to import", hint=f"give {kind_named(kind).what}")
    return read(files, options or Options())
