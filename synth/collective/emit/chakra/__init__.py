"""Chakra execution traces, with the wire format that they are kept in.

Chakra (MLCommons) describes a run as a graph of operations for simulators such as ASTRA-sim; one
file a device, in protobuf. The few shapes of that format that a trace needs are written here, so
that nobody has to install protobuf to write a file. A number is its seven-bit groups, lowest
first, as in the encoding guide's own example of field 1 with the value 150:

>>> from synth.collective.emit.chakra.protobuf import encode_integer
>>> encode_integer(1, 150).hex(" ")
'08 96 01'
"""
