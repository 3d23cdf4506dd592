"""The draft of a graph, or why it is no hierarchy, and what its links allow all the same."""

from __future__ import annotations

from hierarchies.errors import InputError
from hierarchies.graphs.graph import NodeKind
from hierarchies.importers.draft import Draft
from hierarchies.importers.graphs.arcs import SourceGraph
from hierarchies.importers.graphs.machine import draft_of
from hierarchies.importers.graphs.reading import parse_graph
from hierarchies.importers.options import ImportOptions

MOST_DEVICES = 64
"""Of how many devices maximum flows are looked for."""


def read(text: str, options: ImportOptions) -> Draft:
    """The levels of a graph. Raises InputError for a text that is none, and for what is irregular.

    The error says what the links allow by maximum flows, as a bound that needs no levels.
    """
    found = parse_graph(text)
    try:
        return draft_of(found)
    except InputError as error:
        hints = (error.hint, _describe_flow_rates(found))
        raise InputError(
            f"no hierarchy: {error.problem}",
            where=error.where,
            hint="; ".join(hint for hint in hints if hint),
        ) from None


def _describe_flow_rates(found: SourceGraph) -> str:
    devices = [node for node in found.graph.nodes if node.kind is NodeKind.DEVICE]
    known = all(
        e.bandwidth_bytes_per_second is not None or e.kind != "link" for e in found.graph.edges
    )
    if not 1 < len(devices) <= MOST_DEVICES or not found.in_bytes or not known:
        return ""
    # Not at the top of the file: networkx takes longer to load than all other modules together.
    from hierarchies.graphs.flow import flow_rates

    rates = flow_rates(found.graph)
    gather, across = (
        rate / 1e9 for rate in (rates.all_gather_bytes_per_second, rates.broadcast_bytes_per_second)
    )
    return (
        f"by maximum flows its links allow an all-gather of {gather:.4g} GB/s (buffer over time) "
        f"and a broadcast of {across:.4g}"
    )
