"""What nccl-tests and rccl-tests printed, as measurements of ranks on a system.

Logs come with whatever a launcher mixed into them, from many versions, as text, JSON and CSV. Every
table is checked against itself before it is believed: the bandwidths it prints must follow from its
sizes and times, else it is some other test, or torn. ``busbw``, for one, is size over time with a
factor that depends on the collective, 2 (n - 1)/n for an all-reduce of n ranks:

>>> from synth.measure.logs.tables import busbw_factor
>>> busbw_factor("all-reduce", 8), busbw_factor("all-gather", 8), busbw_factor("broadcast", 8)
(1.75, 0.875, 1.0)
"""
