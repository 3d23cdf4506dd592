"""Drafts of a cluster from labels of Kubernetes nodes: ``kubectl get nodes -o json``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hierarchies.errors import InputError
from hierarchies.importers import structured
from hierarchies.importers.claims import Claim, exact_claim
from hierarchies.importers.draft import Draft, ImportOptions
from hierarchies.importers.hostlist import MOST_HOSTS, shorten_list
from hierarchies.importers.networks.networks import HostGroups, NetworkFacts, draft_network
from hierarchies.importers.networks.tiers import Host, Tiers, check_nested, tier_names
from hierarchies.importers.structured import parse_json, require_mapping

_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "google.com/tpu", "aws.amazon.com/neuron")
_COUNT = "nvidia.com/gpu.count"
_PRODUCTS = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator")
_ACCELERATORS = (
    ("domain", ("accelerator.topograph.run/domain",)),
    (
        "subdomain",
        ("accelerator.topograph.run/domain", "accelerator.topograph.run/sub-domain"),
    ),
    ("domain", ("network.topology.nvidia.com/accelerator",)),
    ("ultraserver", ("topology.k8s.aws/ultraserver-id",)),
    ("clique", ("nvidia.com/gpu.clique",)),
)
_MOST_TIERS = 10


@dataclass(frozen=True)
class Preset:
    """One writer's labels for the switches above a node, outermost first.

    ``needed`` is the label that is always present, because some writers share the others.
    """

    name: str
    keys: tuple[str, ...]
    needed: str


_TOPOGRAPH, _OLDER = "fabric.topograph.run/tier-", "network.topology.nvidia.com/"
_AWS, _GKE = "topology.k8s.aws/network-node-layer-", "cloud.google.com/gce-topology-"


def _preset(name: str, prefix: str, ends: Iterable[object], needed: object) -> Preset:
    return Preset(name, tuple(f"{prefix}{end}" for end in ends), f"{prefix}{needed}")


# topograph counts tiers from the node up, AWS counts layers from the top down.
PRESETS = (
    _preset("topograph", _TOPOGRAPH, range(_MOST_TIERS - 1, -1, -1), 0),
    _preset("topograph before 1.0", _OLDER, ("core", "spine", "leaf"), "leaf"),
    _preset("topograph 0.1", _OLDER, ("datacenter", "spine", "block"), "block"),
    _preset("AWS", _AWS, range(1, _MOST_TIERS), 1),
    _preset("GKE", _GKE, ("block", "subblock", "host"), "block"),
)


@dataclass(frozen=True)
class KubernetesNode:
    """One node: its labels, and the number and model of its devices as stated.

    ``counts`` has all places that state the number of its devices; the first is used.
    """

    name: str
    labels: Mapping[str, str]
    devices: int
    model: str
    counts: tuple[tuple[str, int], ...] = ()


def check_beginning(text: str) -> None:
    """Raise InputError for a text that does not begin as JSON, or has not a list of nodes."""
    structured.check_beginning(text, '"items"')


def read(text: str, options: ImportOptions) -> Draft:
    """Return the draft of a cluster from a list of nodes.

    ``options.keys`` are the labels that name the levels, outermost first; without them, those of a
    preset that every node has. Nodes without devices are left out if others have some. Raises
    InputError for an invalid text, or one without such labels.
    """
    nodes = nodes_of(text)
    working = [node for node in nodes if node.devices] or list(nodes)
    if not working:
        raise InputError("the list has no nodes")
    name, keys = _keys(working, options)
    if len(working) > 1 and len({node.labels[keys[-1]] for node in working}) == len(working):
        keys = keys[:-1]
    tiers = Tiers(
        tier_names(len(keys)),
        tuple(Host(node.name, tuple(node.labels[key] for key in keys)) for node in working),
    )
    check_nested(tiers, f"outermost first: {', '.join(keys)}")
    counted = {"gpus": sum(node.devices for node in working)} if working[0].devices else {}
    levels = ", ".join(f"{t} = {key}" for t, key in zip(tiers.names, keys, strict=True)) or "none"
    notes = [f"labels of {name}: {levels}"]
    if working[0].devices and (idle := [node.name for node in nodes if not node.devices]):
        notes.append(f"without devices, left out: {shorten_list(idle)}")
    notes += _contents(working)
    devices = {node.name: node.devices for node in working} if working[0].devices else {}
    facts = NetworkFacts(
        "kubernetes-cluster",
        "labels of Kubernetes",
        notes=tuple(notes),
        counted=counted,
        devices=devices,
        models=tuple({node.model for node in working if node.model}),
        claims=tuple(claim for node in working for claim in _claims(node)),
    )
    return draft_network(tiers, facts, options, _accelerators(working))


def nodes_of(text: str) -> tuple[KubernetesNode, ...]:
    """Return the nodes of a Kubernetes list. Raises InputError for invalid JSON."""
    document = parse_json(text)
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise InputError("not a list of nodes", hint="give the output of kubectl get nodes -o json")
    if len(items) > MOST_HOSTS:
        raise InputError(f"{len(items):,} nodes", hint=f"at most {MOST_HOSTS:,} are read")
    return tuple(_node(item, f"items, entry {i + 1}") for i, item in enumerate(items))


def _node(item: Any, where: str) -> KubernetesNode:
    metadata = require_mapping(require_mapping(item, where).get("metadata"), f"{where}, metadata")
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        raise InputError("a node without a name", where=where)
    labels = {
        key: value
        for key, value in require_mapping(metadata.get("labels") or {}, f"{where}, labels").items()
        if isinstance(value, str)
    }
    status = item.get("status") or {}
    capacity = require_mapping(require_mapping(status, where).get("capacity") or {}, where)
    resource = next((key for key in _RESOURCES if key in capacity), "")
    devices = _number(capacity.get(resource))
    model = next((labels[key] for key in _PRODUCTS if key in labels), "")
    allocatable = require_mapping(status.get("allocatable") or {}, where)
    elsewhere = (("allocatable", allocatable.get(resource)), (_COUNT, labels.get(_COUNT)))
    counts = [("capacity", devices), *((p, _number(n)) for p, n in elsewhere if n is not None)]
    return KubernetesNode(name, labels, devices, model, tuple(counts) if resource else ())


def _claims(node: KubernetesNode) -> Iterator[Claim]:
    """Yield the claims of a node's places about its number of devices, if they differ."""
    if len({count for _, count in node.counts}) > 1:
        for place, count in node.counts:
            follows = place != node.counts[0][0]
            yield exact_claim("devices", f"node {node.name}", place, count, yields=follows)


def _number(value: Any) -> int:
    return int(value) if re.fullmatch(r"[0-9]{1,6}", str(value), re.ASCII) else 0


def _keys(nodes: Sequence[KubernetesNode], options: ImportOptions) -> tuple[str, tuple[str, ...]]:
    """Return the writer whose labels name the levels, and these labels, outermost first."""
    if options.keys:
        for key in options.keys:
            missing = [node.name for node in nodes if key not in node.labels]
            if missing:
                raise InputError(f"no label {key!r} on {shorten_list(missing)}", where="--keys")
        return "--keys", options.keys
    partly = []
    for preset in PRESETS:
        used = [key for key in preset.keys if any(key in node.labels for node in nodes)]
        bare = [n.name for n in nodes if any(key not in n.labels for key in used)]
        if preset.needed in used and not bare:
            return preset.name, tuple(used)
        if preset.needed in used:
            partly.append(f"those of {preset.name} are missing on {shorten_list(bare)}")
    raise InputError(
        f"no labels that locate every node{': ' if partly else ''}{'; '.join(partly)}",
        hint="give the labels, outermost first: --keys LABEL,LABEL",
    )


def _contents(nodes: Sequence[KubernetesNode]) -> list[str]:
    """Return a note on the devices that the nodes state."""
    kinds = Counter((node.devices, node.model) for node in nodes if node.devices)
    if not kinds:
        return []
    parts = "; ".join(
        f"{count} nodes with {devices} devices{f' of {model}' if model else ''}"
        for (devices, model), count in kinds.most_common(6)
    )
    return [f"inside: {parts}"]


def _accelerators(nodes: Sequence[KubernetesNode]) -> tuple[HostGroups, ...]:
    """Return the accelerator domains by the first writer whose labels all nodes have."""
    groups: list[HostGroups] = []
    for name, keys in _ACCELERATORS:
        if groups and not (name == "subdomain" and groups[0].name == "domain"):
            continue
        group_of = {
            node.name: "/".join(node.labels[key] for key in keys)
            for node in nodes
            if all(key in node.labels for key in keys)
        }
        if len(group_of) == len(nodes):
            groups.append(HostGroups(name, group_of))
    return tuple(groups)
