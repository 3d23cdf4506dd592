"""Descriptions of one node, as tools print them: its GPUs, links, NICs and sockets.

Each tool has a module that reads its format into a ``NodePicture``, and one module makes levels of
pictures, so that the same node gives the same draft whichever tool described it. The shape of the
links between GPUs decides a level's domain: equal links between all pairs are a mesh, a circle is a
ring; any other shape fits no level, and the draft says so.

>>> from hierarchies.importers.nodes.islands import find_shape
>>> ring = {(0, 1): 2, (1, 2): 2, (2, 3): 2, (0, 3): 2}
>>> find_shape(4, ring).domain.value
'ring'
>>> find_shape(4, {**ring, (0, 2): 2, (1, 3): 2}).domain.value
'mesh'
"""
