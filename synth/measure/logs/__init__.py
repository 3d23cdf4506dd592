"""Reads logs of nccl-tests and rccl-tests as measurements of ranks on a system.

Logs come from many versions, as text, JSON and CSV, mixed with a launcher's output. Every table is
checked for consistency: its bandwidths must follow from its sizes and times, else it is from
another test, or torn. For example, ``busbw`` is size over time with a factor that depends on the
collective: 2 (n - 1)/n for an all-reduce of n ranks.

>>> from synth.measure.logs.header import find_program
>>> find_program("mpirun -np 8 ./build/all_reduce_perf -b 8 -e 1G -f 2")
'all_reduce'
"""
