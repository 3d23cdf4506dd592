"""Descriptions of a network: hosts, the switches above them, and the tiers of these switches.

All files (InfiniBand discovery, Kubernetes labels, topograph, a dump of JAX's devices) are reduced
to the path of units above every host. The paths determine levels with equal numbers of children,
and the missing units of an uneven machine: a level has one number of children, but real racks have
hosts under repair.

>>> from hierarchies.importers.networks.tiers import Switch, build_switch_tree
>>> tree = build_switch_tree([
...     Switch("spine", below=("leaf0", "leaf1")),
...     Switch("leaf0", hosts=("a0", "a1", "a2")),
...     Switch("leaf1", hosts=("b0", "b1")),
... ])
>>> tree.tiers.names, tree.tiers.full(), tree.tiers.missing()
(('spine', 'leaf'), (1, 2, 3), [(0, 1, 2)])
"""
