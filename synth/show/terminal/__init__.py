"""Answers as tables in a terminal.

A table is generated only from the JSON that ``--json`` prints, so that people and programs read the
same. A cell that would be too wide is wrapped, never truncated.

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
