"""No message sends a user to the verb that raised it."""

from __future__ import annotations

import ast
import re

from places import ROOT
from synth.ask.table import VERBS

NAMED = re.compile(rf"'(?:collsynth )?({'|'.join(VERBS)})(?: [^']*)?'")
RAISED_BY = {
    ("synth/cli/inputs.py", "plan"): {"diff"},
    ("synth/cli/inputs.py", "top"): {"diff"},
    ("synth/collective/degraded/comparison.py", "top"): {"cost"},
    ("synth/collective/ranking/advice.py", "place"): {"top", "sweep", "cost", "plan"},
    ("synth/step/sharding/expansion.py", "trace"): {"shard", "simulate", "buckets", "train"},
    ("synth/cli/inputs.py", "profile"): {"simulate", "plan"},
    ("synth/ask/comparing.py", "plan"): {"diff"},
    ("synth/ask/comparing.py", "top"): {"diff"},
    ("synth/ask/export.py", "check"): {"lower", "time", "emit", "run"},
    ("synth/ask/measured.py", "calibrate"): {"doctor"},
    ("synth/ask/measured.py", "doctor"): {"calibrate"},
    ("synth/ask/outputs.py", "top"): {"emit", "run"},
    ("synth/ask/questions/question.py", "place"): {"check", "lower", "time", "emit", "run"},
    ("synth/ask/training/machines.py", "place"): {"simulate", "buckets"},
}
"""By module each verb that its messages name, with the verbs that give these messages."""
ERRORS = ("InputError", "WrongProgramError")
TEXTS = ("hint", "problem", "unbounded")


def messages() -> set[tuple[str, str]]:
    """The verbs that errors and their hints name in quotes, by module."""
    found = set()
    for path in (ROOT / "synth").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if NAMED.search(text) else ():
            for part in ast.walk(node) if _is_message(node) else ():
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    module = path.relative_to(ROOT).as_posix()
                    found |= {(module, name) for name in NAMED.findall(part.value)}
    return found


def _is_message(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign):
        return any(isinstance(one, ast.Name) and one.id in TEXTS for one in node.targets)
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") in ERRORS


def test_every_message_that_names_a_verb_is_given_by_another() -> None:
    assert messages() == {*RAISED_BY}
    for (module, named), verbs in RAISED_BY.items():
        assert verbs <= {*VERBS}
        assert named not in verbs, module
