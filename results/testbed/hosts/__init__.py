"""Hosts that are network namespaces: their wiring, their orders, and what carries these out."""
