"""Where things lie: the folder of the tests, and the project's."""

from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
