"""Slurm's topology files, in both of their languages.

Slurm reads switches, blocks, rings and tori from ``topology.conf`` or ``topology.yaml``. Each
language has a parser, both give one ``Layout``, and only one module makes a draft of that: a
cluster that moves from one file to the other keeps its levels.

>>> from hierarchies.importers.slurm import conf, yaml
>>> one = conf.layout("SwitchName=s0 Nodes=node[1-2]")
>>> other = yaml.layout("[{topology: a, tree: {switches: [{switch: s0, nodes: 'node[1-2]'}]}}]")
>>> one.switches
(Switch(name='s0', below=(), hosts=('node1', 'node2')),)
>>> one == other
True
"""
