"""The command line: a skin over the table of verbs.

A command turns its flags into a verb's question, asks it, and prints the answer as a table or as
JSON; results go to standard output, progress to standard error. Exit codes say how it ended: 0 ok,
1 the answer is no, 2 bad input, 4 stopped with a part of the answer.

>>> from typer.testing import CliRunner
>>> from synth.cli.app import app
>>> found = CliRunner().invoke(app, ["place", "dgx-h100:2", "--axes", "data=3"])
>>> found.exit_code, "multiply to 3 devices" in found.stderr
(2, True)
"""

from synth.cli.app import main as main
