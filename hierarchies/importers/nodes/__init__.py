"""Descriptions of one node, as tools print them: its GPUs, links, NICs and sockets.

Each tool has a module that reads its format into a ``NodePicture``, and one module derives levels
from pictures, so that a node gives the same draft with every tool. The shape of the links between
GPUs determines a level's domain: equal links between all pairs are a mesh, a circle is a ring. Any
other shape fits no level, and the draft states this.

>>> from hierarchies.importers.nodes.islands import find_shape
>>> ring = {(0, 1): 2, (1, 2): 2, (2, 3): 2, (0, 3): 2}
>>> find_shape(4, ring).domain.value
'ring'
>>> find_shape(4, {**ring, (0, 2): 2, (1, 3): 2}).domain.value
'mesh'
"""
