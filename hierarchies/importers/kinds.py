"""The table of kinds of files that can be imported, and the one way through it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hierarchies.errors import InputError, nearest, within
from hierarchies.importers.draft import Draft
from hierarchies.importers.graphs import reader
from hierarchies.importers.hostlist import listed
from hierarchies.importers.networks import ibnetdiscover, jax_dump, kubernetes, topograph
from hierarchies.importers.nodes import hwloc, nccl_xml, nvidia_smi, rocm_smi
from hierarchies.importers.nodes.node import draft_of
from hierarchies.importers.nodes.picture import Picture
from hierarchies.importers.options import Options
from hierarchies.importers.slurm import slurm


@dataclass(frozen=True)
class Kind:
    """What a kind of file is, and the function from texts (by the files' names) to a draft."""

    what: str
    read: Callable[[Mapping[str, str], Options], Draft]


def _node(what: str, source: str, picture: Callable[[str], Picture]) -> Kind:
    """A kind of file that describes one node."""

    def read(files: Mapping[str, str], options: Options) -> Draft:
        if len(files) != 1:
            hint = "import one node; --nodes says how many such there are"
            raise InputError(f"{len(files)} files of {source}", hint=hint)
        [(name, text)] = files.items()
        with within(name):
            return draft_of(picture(text), name, options)

    return Kind(what, read)


def _cluster(what: str, one: str, draft: Callable[[str, Options], Draft]) -> Kind:
    """A kind of file that describes all hosts; ``one`` is the hint where several are given."""

    def read(files: Mapping[str, str], options: Options) -> Draft:
        if len(files) != 1:
            raise InputError(f"{len(files)} files: {listed(files)}", hint=one)
        [(name, text)] = files.items()
        with within(name):
            return draft(text, options)

    return Kind(what, read)


KINDS: Mapping[str, Kind] = {
    "nvidia-smi": _node("what nvidia-smi topo -m prints", nvidia_smi.SOURCE, nvidia_smi.read),
    "nccl-xml": _node(
        "what NCCL or RCCL writes to NCCL_TOPO_DUMP_FILE", "a NCCL topology", nccl_xml.read
    ),
    "rocm-smi": _node(
        "what rocm-smi --showtopo or amd-smi topology --json prints",
        rocm_smi.SOURCE,
        rocm_smi.read,
    ),
    "hwloc": _node("what lstopo --of xml prints", hwloc.SOURCE, hwloc.read),
    "slurm": Kind("topology.conf, topology.yaml or what scontrol show topology prints", slurm.read),
    "topograph": _cluster(
        "the JSON of topograph's graph engine, or one of its models",
        "give one graph or model",
        topograph.read,
    ),
    "kubernetes": _cluster(
        "what kubectl get nodes -o json prints", "give one list of nodes", kubernetes.read
    ),
    "jax": _cluster(
        f"the JSON that this prints:\n{jax_dump.SNIPPET}",
        "jax.devices() lists all devices of a job: one process's dump is enough",
        jax_dump.read,
    ),
    "graph": _cluster(
        "a graph: GraphML, node-link JSON, a topology of MSCCL, TE-CCL or TACOS",
        "give one graph",
        reader.read,
    ),
    "ibnetdiscover": _cluster(
        "what ibnetdiscover prints", "give one subnet at a time", ibnetdiscover.read
    ),
}


def import_texts(kind: str, files: Mapping[str, str], options: Options | None = None) -> Draft:
    """The draft of a system from files of one kind, given as texts by file name.

    Raises InputError for an unknown kind, and, naming the file, for what is wrong in it.
    """
    if kind not in KINDS:
        raise InputError(f"no kind of file {kind!r}", hint=nearest(kind, KINDS))
    if not files:
        raise InputError("no file to import", hint=f"give {KINDS[kind].what}")
    return KINDS[kind].read(files, options or Options())
