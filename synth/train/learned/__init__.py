"""Seconds of fused groups of operations, learned from kernels that XLA compiled on this machine.

``families`` draws graphs, ``collecting`` measures them, ``samples`` is their file; ``rungs`` is the
ladder of what can be fitted, ``judging`` how far each is off on what it never saw, ``estimator``
the file of the one that was taken. Fitting trees needs the extra ``learn``, drawing graphs JAX,
and the network PyTorch: who only reads an estimator needs none of them.
"""
