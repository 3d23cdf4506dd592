"""Chakra execution traces, and their wire format.

Chakra (MLCommons) describes a run as a graph of operations for simulators such as ASTRA-sim, with
one protobuf file a device. The few wire types that a trace needs are encoded here, so that no
protobuf runtime has to be installed. A number is its seven-bit groups, lowest first, as in the
encoding guide's own example of field 1 with the value 150:

>>> from synth.collective.emit.chakra.protobuf import encode_integer
>>> encode_integer(1, 150).hex(" ")
'08 96 01'
"""
