"""Machines as graphs, for networkx, Gephi, Graphviz and drawings.

>>> from hierarchies import load
>>> from hierarchies.graphs import graph_of
>>> graph = graph_of(load("dgx-h100:2"))
>>> [edge.target for edge in graph.edges if edge.source == "node1/port0"]
['node-switch']
>>> sum(node.kind == "device" for node in graph.nodes)
16

``hierarchies.graphs.formats`` writes graphs to text and converts them to ``networkx.Graph``. Import
it only where needed: networkx takes longer to load than all other modules together.
"""

from hierarchies.graphs.machine import Edge as Edge
from hierarchies.graphs.machine import Join as Join
from hierarchies.graphs.machine import MachineGraph as MachineGraph
from hierarchies.graphs.machine import Node as Node
from hierarchies.graphs.machine import NodeKind as NodeKind
from hierarchies.graphs.machine import graph_of as graph_of
