"""Seconds of a schedule on a system, why, how sure, and what no schedule can beat."""
