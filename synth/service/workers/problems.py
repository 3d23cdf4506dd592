"""Problems of a piece: JSON between processes, exceptions in the server."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Mapping
from uuid import uuid4

from z3 import Z3Exception

from hierarchies import InputError
from synth.ask.answers.parts import Json
from synth.ask.partition import LibraryCache, Piece, carry_out
from synth.ask.reply import WrongProgramError
from synth.collective.ranking.request import Watcher

log = logging.getLogger("collsynth.work")


class WorkError(Exception):
    """A piece has no answer, and the question is not the cause.

    ``problem`` explains what happened, ``hint`` what may help.
    """

    def __init__(self, problem: str, hint: str = "") -> None:
        self.problem, self.where, self.hint = problem, "", hint
        super().__init__(problem, hint)

    def __str__(self) -> str:
        return f"{self.problem}; {self.hint}" if self.hint else self.problem


class WorkerLostError(WorkError):
    """The process that worked on the piece has died; a retry may succeed."""


class NoWorkersError(WorkError):
    """There are no workers: the cluster does not answer or the workers were closed."""


class KilledError(WorkError):
    """The piece was killed at the caller's request."""


class OverTimeError(WorkError):
    """The budget was spent, and no partial answer came within the grace period."""


class OutOfMemoryError(WorkError):
    """The piece needs more memory than it may have."""


class InternalError(WorkError):
    """An internal error. The caller sees only ``id``, under which the log has the traceback."""

    def __init__(self, id: str) -> None:
        self.id = id
        super().__init__(f"internal error {id}", "the log of the server says more under this id")


class StoppedError(Exception):
    """Aborts work that cannot give a partial answer; raised by ``Watcher.go_on``."""


def outcome_text(
    text: str,
    watcher: Watcher,
    memory_bytes: int | None = None,
    libraries: LibraryCache | None = None,
) -> str:
    """Compute a piece given as text; return its result or problem as text.

    Raises no exceptions, because only text leaves a worker's process.
    """
    try:
        return json.dumps(
            {"result": carry_out(Piece.of(text), watcher, libraries)}, allow_nan=False
        )
    except InputError as error:
        kind = WrongProgramError if isinstance(error, WrongProgramError) else InputError
        return _problem(kind, problem=error.problem, where=error.where, hint=error.hint)
    except StoppedError:
        problem, hint = "stopped before it had an answer", "it has no partial answer"
        return _problem(OverTimeError, problem=problem, hint=hint)
    except MemoryError:
        return _memory_problem(memory_bytes)
    except Z3Exception as error:
        return _memory_problem(memory_bytes) if "out of memory" in str(error) else _bug()
    except Exception:
        return _bug()


def _problem(kind: type[Exception], **texts: str) -> str:
    return json.dumps({"kind": kind.__name__, **texts})


def _memory_problem(memory_bytes: int | None) -> str:
    memory = f"{memory_bytes / 2**20:.0f} MiB" if memory_bytes else "there is"
    problem = f"needs more than {memory} of memory"
    return _problem(OutOfMemoryError, problem=problem, hint="ask for less at once")


def _bug() -> str:
    return _problem(InternalError, id=uuid4().hex[:12], traceback=traceback.format_exc())


def other_edition(ours: str, theirs: str) -> str:
    """Return the outcome if worker and server run different code.

    The format must never change, because code of any edition may have to read it.
    """
    return json.dumps({"kind": "other edition", "ours": ours, "theirs": theirs})


def ran_out_of_memory(outcome: str) -> bool:
    """Whether a piece ran out of memory."""
    return outcome.startswith(f'{{"kind": "{OutOfMemoryError.__name__}"')


def result_of(text: str) -> Json:
    """Return the result in an outcome's text, or raise its InputError or WorkError."""
    outcome: Json = json.loads(text)
    match outcome:
        case {"result": dict(result)}:
            return result
        case {"kind": "other edition", "ours": ours, "theirs": theirs}:
            raise NoWorkersError(
                f"a worker runs version {theirs}, and the server {ours}",
                "install the same version of collsynth on server and workers",
            )
        case {"kind": InternalError.__name__, "id": id, "traceback": lines}:
            log.error("internal error %s\n%s", id, lines)
            raise InternalError(id)
        case {"kind": kind, **texts}:
            raise _ERRORS_BY_KIND[kind](**texts)
    raise AssertionError(text)


_ERRORS_BY_KIND: Mapping[str, type[InputError | WorkError]] = {
    kind.__name__: kind for kind in (InputError, WrongProgramError, OverTimeError, OutOfMemoryError)
}
"""Errors that outcomes refer to by name."""
