"""Seconds of fused groups of operations, learned from kernels that were compiled on this machine.

``families`` draws graphs, ``collecting`` measures them, ``samples`` is their file; ``rungs`` is the
ladder of what can be fitted, ``judging`` how far each is off on what it never saw, ``estimator``
the file of the one that was taken. Fitting trees needs the extra ``learn``, drawing graphs JAX,
and the network PyTorch: who only reads an estimator needs none of them.

>>> from synth.train.learned.rungs import Rates, ADDED
>>> from synth.train.learned.kernels import FEATURES, Kernel, Part
>>> each = {"one": 5e-6, "read bytes": 1e-10, "made bytes": 1e-10}
>>> rates = Rates(tuple(each.get(FEATURES[at], 0.0) for at in ADDED), least_seconds=1e-6)
>>> part = Part("series", (-1,), 10**6, 4 * 10**6, 4 * 10**6, 1000, strided=False, kept=True)
>>> kernel = Kernel((part,), 4 * 10**6, 4 * 10**6)
>>> print(f"{1e6 * rates.seconds([kernel])[0]:.0f} us")
805 us
"""
