"""Prices many plans of one model at once, composed of parts read from a step of two layers.

``writing`` writes out the inside of a stage once for each way to shard it; ``reading`` reads it
into an ``inside``. ``staged`` describes a recipe by its stages and ranks, ``sending`` computes the
seconds of gradients and parameters, and ``composer`` seconds and memory. Plans are rows of arrays
(``columns``): ``clock`` bounds their passes, and ``timing`` times these in the order of a schedule.
"""
