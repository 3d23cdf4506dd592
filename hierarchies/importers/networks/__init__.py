"""Descriptions of a network: hosts, the switches above them, and the tiers these make.

Whatever the file (InfiniBand discovery, Kubernetes labels, topograph, what JAX sees), it comes to
the same thing: for every host the path of units above it. From these follow levels of equally
many children, and which units are missing where the real ones are not all alike, for a level has
one number of children and real racks have hosts under repair.

>>> from hierarchies.importers.networks.switches import Switch, build_switch_tree
>>> found = build_switch_tree([
...     Switch("spine", below=("leaf0", "leaf1")),
...     Switch("leaf0", hosts=("a0", "a1", "a2")),
...     Switch("leaf1", hosts=("b0", "b1")),
... ])
>>> found.tiers.names, found.tiers.full(), found.tiers.missing()
(('spine', 'leaf'), (1, 2, 3), [(0, 1, 2)])
"""
