"""Sequences of grouped collectives: steps, the groups they have on a tree, and their text."""
