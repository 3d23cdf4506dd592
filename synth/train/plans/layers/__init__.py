"""Repeated layers rewritten as a plan wants them: done again, or apart for each stage.

Both leave what a step computes as it is, so that whatever reads steps reads these.
"""
