"""The kinds of files that can be imported, and the function that imports them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hierarchies.errors import InputError, error_context, suggest_nearest
from hierarchies.importers.draft import Draft, ImportOptions
from hierarchies.importers.graphs import reading
from hierarchies.importers.hostlist import shorten_list
from hierarchies.importers.networks import (
    ibnetdiscover,
    infiniband,
    jax_dump,
    kubernetes,
    topograph,
)
from hierarchies.importers.nodes import hwloc, nccl_xml, nvidia_smi, rocm_smi
from hierarchies.importers.nodes.node import draft_of
from hierarchies.importers.nodes.picture import NodePicture
from hierarchies.importers.slurm import slurm


@dataclass(frozen=True)
class FileKind:
    """A kind of file: its description, and the function from texts (by file name) to a draft.

    ``check_beginnings`` raises InputError for texts that are recognizably of another kind, without
    reading them completely. ``options`` are the import options that apply to this kind but not to
    all kinds.
    """

    what: str
    read: Callable[[Mapping[str, str], ImportOptions], Draft]
    check_beginnings: Callable[[Mapping[str, str]], None]
    options: tuple[str, ...] = ()


def _node_kind(
    what: str, source: str, picture: Callable[[str], NodePicture], check: Callable[[str], object]
) -> FileKind:
    """Return a kind of file that describes one node."""
    hint = "import one node; --nodes gives the number of such nodes"

    def read(name: str, text: str, options: ImportOptions) -> Draft:
        return draft_of(picture(text), name, options)

    return _single_file_kind(what, hint, read, check, ("gpu",), source)


def _cluster_kind(
    what: str,
    hint: str,
    draft: Callable[[str, ImportOptions], Draft],
    check: Callable[[str], object],
    options: tuple[str, ...] = (),
) -> FileKind:
    """Return a kind of file that describes all hosts."""
    return _single_file_kind(what, hint, lambda name, *rest: draft(*rest), check, options)


def _single_file_kind(
    what: str,
    hint: str,
    draft: Callable[[str, str, ImportOptions], Draft],
    check: Callable[[str], object],
    options: tuple[str, ...] = (),
    source: str = "",
) -> FileKind:
    """Return a kind that reads a single file; ``hint`` is for several, of ``source`` if given."""

    def single_file(files: Mapping[str, str]) -> tuple[str, str]:
        if len(files) != 1:
            listed = f" of {source}" if source else f": {shorten_list(files)}"
            raise InputError(f"{len(files)} files{listed}", hint=hint)
        return next(iter(files.items()))

    def read(files: Mapping[str, str], given: ImportOptions) -> Draft:
        name, text = single_file(files)
        with error_context(name):
            return draft(name, text, given)

    def check_beginnings(files: Mapping[str, str]) -> None:
        name, text = single_file(files)
        with error_context(name):
            check(text)

    return FileKind(what, read, check_beginnings, options)


KINDS: Mapping[str, FileKind] = {
    "nvidia-smi": _node_kind(
        "the output of nvidia-smi topo -m", nvidia_smi.SOURCE, nvidia_smi.read, nvidia_smi.read
    ),
    "nccl-xml": _node_kind(
        "the file that NCCL or RCCL writes to NCCL_TOPO_DUMP_FILE",
        "a NCCL topology",
        nccl_xml.read,
        nccl_xml.check_beginning,
    ),
    "rocm-smi": _node_kind(
        "the output of rocm-smi --showtopo or amd-smi topology --json",
        rocm_smi.SOURCE,
        rocm_smi.read,
        rocm_smi.read,
    ),
    "hwloc": _node_kind(
        "the output of lstopo --of xml", hwloc.SOURCE, hwloc.read, hwloc.check_beginning
    ),
    "slurm": FileKind(
        "topology.conf, topology.yaml or the output of scontrol show topology",
        slurm.read,
        slurm.check_beginning,
    ),
    "topograph": _cluster_kind(
        "the JSON of topograph's graph engine, or one of its models",
        "give one graph or model",
        topograph.read,
        topograph.check_beginning,
    ),
    "kubernetes": _cluster_kind(
        "the output of kubectl get nodes -o json",
        "give one list of nodes",
        kubernetes.read,
        kubernetes.check_beginning,
        ("keys",),
    ),
    "jax": _cluster_kind(
        f"the JSON that this prints:\n{jax_dump.SNIPPET}",
        "jax.devices() lists all devices of a job: one process's dump is enough",
        jax_dump.read,
        jax_dump.check_beginning,
    ),
    "graph": _cluster_kind(
        "a graph: GraphML, node-link JSON, a topology of MSCCL, TE-CCL or TACOS",
        "give one graph",
        reading.read,
        reading.check_beginning,
    ),
    "ibnetdiscover": _cluster_kind(
        "the output of ibnetdiscover",
        "give one subnet at a time",
        ibnetdiscover.read,
        infiniband.check_beginning,
    ),
}


def import_texts(
    kind: str, files: Mapping[str, str], options: ImportOptions | None = None
) -> Draft:
    """Return the draft of a system from files of one kind, given as texts by file name.

    Raises InputError for an unknown kind, and for errors in a file, naming the file.
    """
    options = options or ImportOptions()
    known = _kind(kind, files)
    _check_options(kind, known, options)
    draft = known.read(files, options)
    with error_context(shorten_list(files)):
        return draft.settled()


def _check_options(name: str, kind: FileKind, options: ImportOptions) -> None:
    """Raise InputError for an option that does not apply to a kind of file."""
    if options.gpu is not None and "gpu" not in kind.options:
        raise InputError(
            f"--gpu {options.gpu} does not apply to {name}, which does not describe a single node",
            hint="--inside gives the node of a network",
        )
    if options.keys and "keys" not in kind.options:
        raise InputError(f"--keys names Kubernetes labels, and {name} has none")


def check_beginnings(kind: str, files: Mapping[str, str]) -> None:
    """Raise InputError for files whose beginnings show that they are not of a kind.

    Takes far less than a second for files of any length. Files that pass may still be invalid.
    """
    _kind(kind, files).check_beginnings(files)


def _kind(kind: str, files: Mapping[str, str]) -> FileKind:
    if kind not in KINDS:
        raise InputError(f"unknown kind of file {kind!r}", hint=suggest_nearest(kind, KINDS))
    if not files:
        raise InputError("no file to import", hint=f"give {KINDS[kind].what}")
    return KINDS[kind]
