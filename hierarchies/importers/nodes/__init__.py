"""Descriptions of one node, as tools print them: its GPUs, links, NICs and sockets."""
