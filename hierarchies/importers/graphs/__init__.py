"""Graphs that others drew, read as levels: ours, networkx's, MSCCL's, TE-CCL's and TACOS's.

Domains (switches, buses, circles, meshes) that lie inside each other are levels; what is slower or
missing becomes an exception. A graph that is no hierarchy is refused by the first thing that is
irregular, with what maximum flows say of its links.

>>> from hierarchies import load
>>> from hierarchies.graphs import graph_of
>>> from hierarchies.graphs.formats import FORMATS
>>> from hierarchies.importers import import_texts
>>> system = load("dgx-h100:2")
>>> text = FORMATS["json"](system, graph_of(system))
>>> [(level.name, level.count.value) for level in import_texts("graph", {"f.json": text}).levels]
[('node', 2), ('gpu', 8)]
"""
