"""Kernels of a plan held by barriers in XLA: what it makes of them, and what they take."""
