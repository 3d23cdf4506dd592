"""Searches that know no domain: states, moves and prices come from the caller."""
