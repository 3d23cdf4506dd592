"""Graphs from other tools, read as levels: networkx's, MSCCL's, TE-CCL's, TACOS's and ours.

Nested domains (switches, buses, circles, meshes) become levels; slower or missing parts become
exceptions. A graph that is not a hierarchy is refused with its first irregularity, and with the
bounds that maximum flows give for its links.

>>> from hierarchies import load
>>> from hierarchies.graphs import graph_of
>>> from hierarchies.graphs.formats import FORMATS
>>> from hierarchies.importers import import_texts
>>> system = load("dgx-h100:2")
>>> text = FORMATS["json"](system, graph_of(system))
>>> [(level.name, level.count.value) for level in import_texts("graph", {"f.json": text}).levels]
[('node', 2), ('gpu', 8)]
"""
