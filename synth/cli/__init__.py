"""The command line: a skin over the table of verbs."""

from synth.cli.app import main as main
