"""Slurm's topology files, in both of their languages.

Slurm reads switches, blocks, rings and tori from ``topology.conf`` or ``topology.yaml``. Each
language has a parser; both return a ``SlurmLayout``, from which one module makes the draft, so a
cluster that changes from one file to the other keeps its levels.

>>> from hierarchies.importers.slurm.parsing import parse_conf
>>> from hierarchies.importers.slurm.parsing import parse_topology_yaml
>>> conf = parse_conf("SwitchName=s0 Nodes=node[1-2]")
>>> tree = "{switches: [{switch: s0, nodes: 'node[1-2]'}]}"
>>> conf.switches
(Switch(name='s0', below=(), hosts=('node1', 'node2')),)
>>> parse_topology_yaml(f"[{{topology: a, tree: {tree}}}]") == conf
True
"""
