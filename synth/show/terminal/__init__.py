"""Answers as tables in a terminal.

A table is made from the same JSON that ``--json`` prints, and from nothing else: what people read
and what programs read cannot differ. A cell that would be too wide is folded, never cut.

>>> from rich.console import Console
>>> from synth.show.terminal.table import TABLES
>>> asked = {"schema_version": 1, "digits": 1, "request": "all-reduce"}
>>> counts = {"by_length": [1, 2], "instructions": 5, "complete": True}
>>> Console(width=60).print(TABLES["count"]({**asked, **counts}))
steps  programs
    1         1
    2         2
3 valid programs, 5 instructions
"""
