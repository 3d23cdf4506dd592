"""Measurements: logs of nccl-tests, fits of links to them, and profiles of local work.

``logs`` reads files, ``calibration`` fits latencies and bandwidths, ``doctor`` compares a log with
its prediction, and ``profiles`` measures the local work of a step.

>>> from hierarchies import load
>>> from synth.measure.calibration.experiments import isolating_experiment
>>> print(isolating_experiment(load("dgx-h100:2"), "gpu").program)
all_reduce_perf
"""
