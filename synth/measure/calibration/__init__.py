"""Fits prices to measurements, and evaluates the fit.

A description states the capabilities of links; a run of nccl-tests shows their performance. A fit
finds latency and bandwidth for each level, algorithm and protocol that explain the measured rows.
It also reports its error on unseen rows, and the numbers that the rows leave undetermined. A fit
needs rows that time levels separately, so this package also lists the tests to run:

>>> from hierarchies import load
>>> from synth.measure.calibration.experiments import isolating_experiment
>>> test = isolating_experiment(load("dgx-h100:2"), "gpu")
>>> print(test.program, test.arguments)
all_reduce_perf -b 1K -e 1G -f 2 -g 1 -w 5 -n 20
>>> test.groups.where
'level gpu alone, all at once'
>>> test.environment
{'NCCL_TESTS_SPLIT': 'DIV 8', 'NCCL_ALGO': 'Ring', 'NCCL_PROTO': 'Simple'}
"""
