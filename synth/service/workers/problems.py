"""What may go wrong with a piece: as JSON while it travels, as an exception where it arrives."""

from __future__ import annotations

import json
import logging
import traceback
from uuid import uuid4

from z3 import Z3Exception

from hierarchies import InputError
from synth.plan.request import Watcher
from synth.verbs.answers.parts import Json
from synth.verbs.export import WrongProgramError
from synth.verbs.partition import LibraryCache, Piece, carry_out

log = logging.getLogger("collsynth.work")


class WorkError(Exception):
    """A piece has no answer, and the question is not to blame.

    ``problem`` says what happened and ``hint`` what may help, in words for whoever asked.
    """

    def __init__(self, problem: str, hint: str = "") -> None:
        self.problem, self.where, self.hint = problem, "", hint
        super().__init__(problem, hint)

    def __str__(self) -> str:
        return f"{self.problem}; {self.hint}" if self.hint else self.problem


class WorkerLostError(WorkError):
    """The process that worked on the piece has died; another try may well succeed."""


class NoWorkersError(WorkError):
    """There are no workers: the cluster does not answer, or the workers were closed."""


class KilledError(WorkError):
    """The piece was killed, as the caller asked."""


class OverTimeError(WorkError):
    """The budget was spent, and no partial answer came within the grace."""


class OutOfMemoryError(WorkError):
    """The piece needs more memory than it may have."""


class InternalError(WorkError):
    """A bug of ours. ``id`` is all that the caller sees; the log has the traceback under it."""

    def __init__(self, id: str) -> None:
        self.id = id
        super().__init__(f"internal error {id}", "the log of the server says more under this id")


class StoppedError(Exception):
    """Ends work that must stop and cannot answer in part; raised where it asks to go on."""


def outcome_text(
    text: str,
    watcher: Watcher,
    memory_bytes: int | None = None,
    libraries: LibraryCache | None = None,
) -> str:
    """Carry a piece out, as text to text: its result, or the problem it ended with.

    Raises nothing: what leaves a worker's process must be data.
    """
    try:
        return json.dumps(
            {"result": carry_out(Piece.of(text), watcher, libraries)}, allow_nan=False
        )
    except InputError as error:
        kind = "program" if isinstance(error, WrongProgramError) else "input"
        texts = {"problem": error.problem, "where": error.where, "hint": error.hint}
        return json.dumps({"kind": kind, **texts})
    except StoppedError:
        return json.dumps({"kind": "stopped"})
    except MemoryError:
        return json.dumps({"kind": "memory", "bytes": memory_bytes})
    except Z3Exception as error:
        if "out of memory" in str(error):
            return json.dumps({"kind": "memory", "bytes": memory_bytes})
        return _bug()
    except Exception:
        return _bug()


def _bug() -> str:
    return json.dumps({"kind": "bug", "id": uuid4().hex[:12], "traceback": traceback.format_exc()})


def result_of(text: str) -> Json:
    """The result in an outcome's text. Raises the InputError or WorkError that came instead."""
    found: Json = json.loads(text)
    if "result" in found:
        result: Json = found["result"]
        return result
    raise _raised(found)


def _raised(found: Json) -> Exception:
    match found["kind"]:
        case "input":
            return InputError(found["problem"], where=found["where"], hint=found["hint"])
        case "program":
            return WrongProgramError(found["problem"], where=found["where"], hint=found["hint"])
        case "stopped":
            return OverTimeError("stopped before there was an answer", "it has no partial answer")
        case "memory":
            mebibytes = f"{found['bytes'] / 2**20:.0f} MiB" if found["bytes"] else "there is"
            return OutOfMemoryError(
                f"needs more than {mebibytes} of memory", "ask for less at once"
            )
        case "other edition":
            return NoWorkersError(
                f"a worker answers with other code: {found['theirs']}, and the server has "
                f"{found['ours']}",
                "install the same version of collsynth on server and workers",
            )
        case _:
            log.error("internal error %s\n%s", found["id"], found["traceback"])
            return InternalError(found["id"])
