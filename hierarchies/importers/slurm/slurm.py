"""Drafts of a cluster from Slurm's topology.conf, topology.yaml, or ``scontrol show topology``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from hierarchies.errors import InputError, error_context
from hierarchies.importers.claims import Claim, exact_claim
from hierarchies.importers.draft import Blank, Draft, ImportOptions, StatedValue
from hierarchies.importers.hostlist import shorten_list
from hierarchies.importers.networks.networks import (
    NODE,
    NetworkFacts,
    cable_level,
    check_nodes,
    draft_group_network,
    draft_network,
)
from hierarchies.importers.networks.tiers import Host, Tiers, add_groups, build_switch_tree
from hierarchies.importers.slurm.parsing import (
    NodeGroup,
    SlurmLayout,
    Torus,
    counted,
    parse_conf,
    parse_topology_yaml,
)
from hierarchies.importers.slurm.parsing import check_beginning as check_conf_beginning
from hierarchies.importers.structured import check_yaml_beginning

_NAME, _SOURCE = "slurm-cluster", "Slurm's topology"
_RACKS = (
    "A block is one unit of the system that --inside names: such a unit holds as many machines as "
    "the largest block."
)
_NOT_STATED = Blank("switch", "usual; Slurm does not state how blocks or rings are connected")


def read(files: Mapping[str, str], options: ImportOptions) -> Draft:
    """Return the draft of a cluster from Slurm's file; topology.yaml overrides topology.conf.

    It has no bandwidths, because Slurm's files have none. Raises InputError, naming the file.
    """
    name, text = _select_file(files)
    ignored = [other for other in files if other != name] if _is_yaml(name, text) else []
    with error_context(name):
        layout = parse_topology_yaml(text) if _is_yaml(name, text) else parse_conf(text)
        draft = _draft(replace(layout, counted=counted(text, layout.blocks)), options)
    notes = (
        (f"left out, as by Slurm with a topology.yaml: {shorten_list(ignored)}",) if ignored else ()
    )
    return replace(draft, notes=(*notes, *draft.notes))


def check_beginning(files: Mapping[str, str]) -> None:
    """Raise InputError, naming the file, if the first lines of a file are not Slurm's."""
    name, text = _select_file(files)
    with error_context(name):
        if _is_yaml(name, text):
            check_yaml_beginning(text)
        else:
            check_conf_beginning(text)


def _select_file(files: Mapping[str, str]) -> tuple[str, str]:
    """Return the name and text of the file to use. Raises InputError if there are several."""
    candidates = {name: text for name, text in files.items() if _is_yaml(name, text)} or files
    if len(candidates) > 1:
        raise InputError(
            f"{len(candidates)} files: {shorten_list(candidates)}",
            hint="give the topology of one cluster",
        )
    return next(iter(candidates.items()))


def _is_yaml(name: str, text: str) -> bool:
    return name.endswith((".yaml", ".yml")) or text.lstrip().startswith(("- ", "---"))


def _draft(layout: SlurmLayout, options: ImportOptions) -> Draft:
    layout = _drop_empty_groups(layout)
    if layout.tori:
        return _torus(layout.tori, layout.notes, options)
    if layout.rings:
        return _groups(layout.rings, "ring", layout, options)
    if layout.switches:
        return _switches(layout, options)
    if layout.blocks:
        return _groups(layout.blocks, "block", layout, options)
    raise InputError(
        "no switch, block or ring found", hint="a topology.conf has SwitchName=... lines"
    )


def _drop_empty_groups(layout: SlurmLayout) -> SlurmLayout:
    """Return the layout without blocks and rings that have no nodes, which a note names."""
    empty = [group.name for group in (*layout.blocks, *layout.rings) if not group.nodes]
    if not empty:
        return layout
    blocks, rings = (
        tuple(group for group in groups if group.nodes) for groups in (layout.blocks, layout.rings)
    )
    if not (blocks or rings or layout.switches):
        raise InputError(f"no block or ring has nodes: {shorten_list(empty)}")
    note = f"left out, as they have no nodes: {shorten_list(empty)}"
    return replace(layout, blocks=blocks, rings=rings, notes=(*layout.notes, note))


def _switches(layout: SlurmLayout, options: ImportOptions) -> Draft:
    tree = build_switch_tree(layout.switches)
    tiers, notes = tree.tiers, [*layout.notes, *tree.notes]
    if len(tree.tops) > 1:
        notes.append(
            f"no switch joins {shorten_list(tree.tops)}: Slurm keeps every job inside one of them. "
            "The outermost level assumes a network between them."
        )
    if layout.blocks:
        groups = {node: block.name for block in layout.blocks for node in block.nodes}
        grouped = add_groups(tiers, "block", groups)
        tiers = grouped.tiers
        notes.append(grouped.note)
    claims = (*_nodes_below(layout, tree.tiers), *_counted(layout))
    counted = tree.tiers.switches()
    facts = NetworkFacts(_NAME, _SOURCE, notes=tuple(notes), counted=counted, claims=claims)
    return draft_network(tiers, facts, options)


def _nodes_below(layout: SlurmLayout, tiers: Tiers) -> Iterator[Claim]:
    """Yield the nodes below a switch, claimed by its own line and by the leaf switches."""
    totals = Counter(name for host in tiers.hosts for name in {*host.path})
    for name, (count, line) in layout.below.items():
        place = "the lines of leaf switches"
        yield exact_claim("nodes", f"switch {name}", place, totals[name])
        yield exact_claim("nodes", f"switch {name}", f"line {line}", count, yields=True)


def _counted(layout: SlurmLayout) -> Iterator[Claim]:
    """Yield the nodes of a block, claimed by a comment and by the block's list."""
    lengths = {block.name: len({*block.nodes}) for block in layout.blocks}
    for name, (count, line) in layout.counted.items():
        yield exact_claim("nodes", f"block {name}", "its list", lengths.get(name, 0))
        yield exact_claim("nodes", f"block {name}", f"line {line}", count, yields=True)


def _groups(
    groups: Sequence[NodeGroup], kind: str, layout: SlurmLayout, options: ImportOptions
) -> Draft:
    """Return the draft of blocks, which may be racks, or of rings of nodes."""
    twice = [name for name, count in Counter(g.name for g in groups).items() if count > 1]
    if twice:
        raise InputError(f"{kind}s given twice: {shorten_list(twice)}")
    hosts = tuple(Host(node, (group.name,)) for group in groups for node in group.nodes)
    facts = NetworkFacts(
        _NAME,
        _SOURCE,
        _NOT_STATED,
        notes=layout.notes,
        counted={f"{kind}s": len(groups)},
        claims=tuple(_counted(layout)),
    )
    tiers = Tiers((kind,), hosts)
    draft = draft_network(tiers, facts, options)
    if kind == "block":
        racks = replace(facts, notes=(*layout.notes, _RACKS))
        return replace(draft, wider=draft_group_network(tiers, racks, "block"))
    *outer, nodes = draft.levels
    closed = cable_level(NODE, "ring", nodes.count, _SOURCE)
    return replace(draft, levels=(*(replace(level, through=()) for level in outer), closed))


def _torus(tori: Sequence[Torus], notes: Sequence[str], options: ImportOptions) -> Draft:
    if len(tori) > 1:
        raise InputError(
            f"{len(tori)} tori: {shorten_list(torus.name for torus in tori)}",
            hint="import one: remove the others from the file",
        )
    x, y, z = tori[0].dimensions
    check_nodes(prod((x, y, z)), options)
    levels = [
        cable_level(name, "torus", StatedValue(count, _SOURCE), _SOURCE, ports)
        for name, count, ports in (("z", z, x * y), ("y", y, x), ("x", x, 1))
        if count > 1
    ] or [cable_level("x", "torus", StatedValue(1, _SOURCE), _SOURCE)]
    return Draft(
        _NAME,
        f"{_SOURCE}: a torus of {z} z x {y} y x {x} x",
        tuple(levels),
        notes=(*notes, "A device of this description is a whole node with its own links."),
        counted={"nodes": x * y * z},
    )
