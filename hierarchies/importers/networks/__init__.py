"""Descriptions of a network: hosts, the switches above them, and the tiers these make."""
