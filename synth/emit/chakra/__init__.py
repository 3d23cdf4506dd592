"""Chakra execution traces, with the wire format that they are kept in."""
