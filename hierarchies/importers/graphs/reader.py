"""The draft of a graph, or the reason why it is no hierarchy, with bounds from its links."""

from __future__ import annotations

from hierarchies.errors import InputError
from hierarchies.graphs.graph import NodeKind
from hierarchies.importers.draft import Draft
from hierarchies.importers.graphs.arcs import SourceGraph
from hierarchies.importers.graphs.machine import draft_of
from hierarchies.importers.graphs.reading import parse_graph
from hierarchies.importers.options import ImportOptions

MOST_DEVICES = 64
"""The most devices for which maximum flows are computed."""


def read(text: str, options: ImportOptions) -> Draft:
    """The levels of a graph. Raises InputError for an invalid text, and for irregular graphs.

    Such errors include the bounds that maximum flows give, which need no levels.
    """
    source_graph = parse_graph(text)
    try:
        return draft_of(source_graph)
    except InputError as error:
        hints = (error.hint, _describe_flow_rates(source_graph))
        raise InputError(
            f"no hierarchy: {error.problem}",
            where=error.where,
            hint="; ".join(hint for hint in hints if hint),
        ) from None


def _describe_flow_rates(source_graph: SourceGraph) -> str:
    devices = [node for node in source_graph.graph.nodes if node.kind is NodeKind.DEVICE]
    rated = all(
        e.bandwidth_bytes_per_second is not None or e.kind != "link"
        for e in source_graph.graph.edges
    )
    if not 1 < len(devices) <= MOST_DEVICES or not source_graph.in_bytes or not rated:
        return ""
    # Not at the top of the file: networkx takes longer to load than all other modules together.
    from hierarchies.graphs.flow import flow_rates

    rates = flow_rates(source_graph.graph)
    gather, across = (
        rate / 1e9 for rate in (rates.all_gather_bytes_per_second, rates.broadcast_bytes_per_second)
    )
    return (
        f"by maximum flows its links allow an all-gather of {gather:.4g} GB/s (buffer over time) "
        f"and a broadcast of {across:.4g}"
    )
