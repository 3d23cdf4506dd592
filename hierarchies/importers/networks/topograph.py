"""Drafts from NVIDIA topograph: the JSON of its graph engine, or models of its simulations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hierarchies.errors import InputError
from hierarchies.importers import structured
from hierarchies.importers.draft import Draft, ImportOptions
from hierarchies.importers.hostlist import MOST_HOSTS, HostlistExpander, shorten_list
from hierarchies.importers.networks.networks import HostGroups, NetworkFacts, draft_network
from hierarchies.importers.networks.tiers import (
    Host,
    Switch,
    Tiers,
    build_switch_tree,
    check_nested,
    tier_names,
)
from hierarchies.importers.structured import (
    entries_of,
    parse_json,
    parse_yaml,
    require_list,
    require_mapping,
    require_text,
    require_texts,
)

_NAME = "topograph-cluster"
_GROUPS = {"domain": "domain", "sub-domain": "subdomain", "nvlink": "domain"}


@dataclass(frozen=True)
class Cluster:
    """Hosts below tiers of switches, and their accelerator domains, largest first."""

    tiers: Tiers
    domains: tuple[HostGroups, ...]
    notes: tuple[str, ...]
    models: tuple[str, ...] = ()


def read(text: str, options: ImportOptions) -> Draft:
    """Return the draft of a cluster from a graph or a model.

    Raises InputError for anything else.
    """
    cluster = parse_cluster(text)
    facts = NetworkFacts(
        _NAME,
        "topograph",
        notes=cluster.notes,
        counted=cluster.tiers.switches(),
        models=cluster.models,
    )
    return draft_network(cluster.tiers, facts, options, cluster.domains)


def parse_cluster(text: str) -> Cluster:
    """Return the cluster of a graph or a model. Raises InputError for text that is neither."""
    document = parse_json(text) if text.lstrip().startswith("{") else parse_yaml(text)
    if isinstance(document, dict) and "instances" in document:
        return _graph(require_list(document["instances"], "instances"))
    if isinstance(document, dict) and ("blocks" in document or "capacity_blocks" in document):
        return _model(document)
    raise InputError(
        "neither a graph nor a model of topograph",
        hint="a graph has 'instances' with 'network_layers', a model 'switches' and 'blocks'",
    )


def check_beginning(text: str) -> None:
    """Raise InputError for a text whose beginning is neither JSON nor YAML."""
    if text.lstrip().startswith("{"):
        structured.check_beginning(text, '"instances"', '"blocks"', '"capacity_blocks"')
    else:
        structured.check_yaml_beginning(text)


def _graph(instances: list[Any]) -> Cluster:
    """Return the cluster of instances, which name their switches closest first."""
    if len(instances) > MOST_HOSTS:
        raise InputError(f"{len(instances):,} instances", hint=f"at most {MOST_HOSTS:,} are read")
    hosts, labels, models = [], {}, Counter[str]()
    for where, instance in entries_of(instances, "instances"):
        name = require_text(instance.get("id"), f"{where}, id")
        layers = require_list(instance.get("network_layers"), f"{where}, network_layers")
        path = tuple(require_text(layer, f"{where}, network_layers") for layer in reversed(layers))
        hosts.append(Host(name, path))
        labels[name] = _labels(instance)
        models[str(instance.get("type") or "")] += 1
    if not hosts:
        raise InputError("the graph has no instances")
    tiers = Tiers(tier_names(len(hosts[0].path)), tuple(hosts))
    check_nested(tiers, "closest switch first")
    return Cluster(tiers, _domains(labels), _models_note(models), tuple(filter(None, models)))


def _model(document: Mapping[str, Any]) -> Cluster:
    names = HostlistExpander()
    if "blocks" in document:
        blocks = require_list(document["blocks"], "blocks")
        above = require_mapping(document.get("switches") or {}, "switches")
        under: dict[str, str] = {}
    else:
        blocks = require_list(document["capacity_blocks"], "capacity_blocks")
        above, under = _parse_old_switches(require_list(document.get("switches"), "switches"))
    hosts: dict[str, list[str]] = {}
    labels: dict[str, dict[str, str]] = {}
    models = Counter[str]()
    empty = []
    for where, block in entries_of(blocks, "blocks"):
        switch = block.get("switch") or under.get(str(block.get("name")))
        lists = require_texts(block.get("nodes"), f"{where}, nodes")
        if not lists:
            empty.append(str(block.get("name") or switch or where))
            continue
        nodes = names.of(",".join(lists))
        hosts.setdefault(require_text(switch, f"{where}, switch"), []).extend(nodes)
        labels |= dict.fromkeys(nodes, _labels(block))
        models[str(block.get("type") or "")] += len(nodes)
    switches = [
        Switch(
            name,
            tuple(require_texts(require_mapping(value or {}, name).get("switches"), name)),
        )
        for name, value in above.items()
        if name not in hosts or require_mapping(value or {}, name).get("switches")
    ]
    switches += [Switch(name, hosts=tuple(nodes)) for name, nodes in hosts.items()]
    tree = build_switch_tree(switches)
    notes = (*tree.notes, *_models_note(models))
    if empty:
        notes = (*notes, f"blocks left out, as they have no nodes: {shorten_list(empty)}")
    return Cluster(tree.tiers, _domains(labels), notes, tuple(filter(None, models)))


def _parse_old_switches(entries: list[Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return switches as models before 2025 list them, and the switch of each capacity block."""
    above, under = {}, {}
    for where, switch in entries_of(entries, "switches"):
        name = require_text(switch.get("name"), f"{where}, name")
        if name in above:
            raise InputError(f"switch {name!r} is given twice")
        above[name] = switch
        for block in require_texts(switch.get("capacity_blocks"), where):
            under[block] = name
    return above, under


def _labels(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return the accelerator domains in the labels of an instance or block."""
    domains: dict[str, str] = {}
    for section in ("labels", "annotations", "attributes"):
        for key, value in require_mapping(entry.get(section) or {}, section).items():
            group = _GROUPS.get(key.rpartition("/")[2])
            if group and value is not None:
                domains[group] = str(value)
    if entry.get("nvlink"):
        domains.setdefault("domain", str(entry["nvlink"]))
    return domains


def _domains(labels: Mapping[str, Mapping[str, str]]) -> tuple[HostGroups, ...]:
    """Return domains, and domains inside domains, whose names include their outer domain's."""
    result = []
    for depth, name in enumerate(("domain", "subdomain")):
        outer = ("domain", "subdomain")[: depth + 1]
        group_of = {
            host: "/".join(groups[key] for key in outer)
            for host, groups in labels.items()
            if all(key in groups for key in outer)
        }
        if group_of:
            result.append(HostGroups(name, group_of))
    return tuple(result)


def _models_note(models: Counter[str]) -> tuple[str, ...]:
    named = [f"{count} of type {model}" for model, count in models.items() if model]
    return (f"nodes: {', '.join(named)}",) if named else ()
