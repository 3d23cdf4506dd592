"""One verb asked from a terminal: flags to a question, progress, the answer as table or JSON."""

from __future__ import annotations

import json
import logging
import os
import signal
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import PurePath
from types import FrameType, MappingProxyType
from typing import Any, Protocol

import typer
from pydantic import BaseModel
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from hierarchies import InputError, error_context
from hierarchies.units import format_duration
from synth.ask.answers.parts import TextFile
from synth.ask.partition import best_so_far_json
from synth.ask.questions.fields import flag_of, lists_of
from synth.ask.questions.question import Question, parse_question
from synth.ask.reply import Outcome, Reply, WrongProgramError
from synth.ask.table import VERBS, judge
from synth.cli.collected import collect_items
from synth.cli.inputs import READERS, skip_files, strip_texts
from synth.cli.outputs import deliver, flush_stdout
from synth.collective.ranking.request import ProvisionalResult, Watcher
from synth.search.forks import processors
from synth.search.heap import collect_garbage_seldom
from synth.show.terminal.style import console
from synth.show.terminal.table import TABLES

USAGE = 2
INTERRUPTED = 130
log = logging.getLogger("collsynth")


class AnswerCache(Protocol):
    """A cache of earlier answers; both methods raise InputError where it cannot be reached."""

    def find(self, verb: str, question: Question) -> Reply | None: ...

    def keep(self, verb: str, question: Question, reply: Reply, seconds: float) -> None: ...


CacheOpener = Callable[[], AbstractContextManager[AnswerCache | None]]


def ask(
    verb: str,
    flags: Mapping[str, Any],
    *,
    as_json: bool,
    in_lines: bool = False,
    budget_seconds: float | None,
    output: str | None = None,
    page: str | None = None,
    apart: Mapping[str, str] = MappingProxyType({}),
    before: CacheOpener = nullcontext,
) -> int:
    """Put a question, print the answer, and say how it ended: the exit code.

    With ``in_lines`` each best so far is a line of JSON on standard output, and the answer is the
    last line. Files that are the answer go to ``output``, or with ``as_json`` the JSON that holds
    them; after that one file, by the end of its name, to where ``apart`` says, and a report to
    ``page``. An answer that was given ``before`` is given again. A caller's mistake, and what
    cannot be written, becomes one line on standard error and exit code 2.
    """
    begun = clock.perf_counter()
    try:
        _check_page(page)
        if in_lines:
            _check_lines(as_json, output)
        model = VERBS[verb].question
        question = parse_question(
            model, dict(_read(model, _add_format(model, flags, output, as_json)))
        )
        if getattr(question, "sweep", None):
            _check_files_of_sweep(None if as_json else output)
        if log.isEnabledFor(logging.INFO):
            named = strip_texts(question.model_dump(mode="json", exclude_none=True))
            log.info("asked: %s", json.dumps(named))
        watching = _watch(budget_seconds, VERBS[verb].partial, in_lines)
        with before() as known, watching as watcher, collect_garbage_seldom():
            reply = _answer_or_reuse(verb, question, watcher, known)
        log.info("%s answered in %.3f s", verb, clock.perf_counter() - begun)
        empty = False
        if in_lines:
            _print_line({"answer": reply.body})
        elif as_json:
            text = json.dumps(reply.body, allow_nan=False) + "\n"
            deliver([TextFile(name=f"{verb}.json", text=text)], output)
        else:
            empty = not _show(verb, reply.body, output)
        for ending, place in apart.items():
            deliver([_file(reply.body, ending)], place)
        if page is not None:
            _write_page(verb, question, reply.body, page)
    except InputError as error:
        typer.echo(f"collsynth: {error}", err=True)
        return int(Outcome.NO) if isinstance(error, WrongProgramError) else USAGE
    outcome = max(int(reply.outcome), int(Outcome.NO) * empty)
    return INTERRUPTED if watcher.interrupted else outcome


def _write_page(verb: str, question: Question, body: dict[str, Any], page: str) -> None:
    """Write the report of an answer."""
    # Not at the top of the file: it loads drawings that only a report needs.
    from synth.show.report import report

    given = strip_texts(question.model_dump(mode="json", exclude_defaults=True))
    text = report(verb, given, body)
    deliver([TextFile(name=f"{verb}.html", text=text)], page)


def _file(body: Mapping[str, Any], ending: str) -> TextFile:
    """The file of an answer whose name ends so. Raises InputError where there is none."""
    for file in body["files"]:
        if file["name"].endswith(ending):
            return TextFile(**file)
    raise InputError(
        f"the answer has no {ending} file", hint="a step without communication has no job"
    )


def _check_page(page: str | None) -> None:
    """Refuse, before anything is worked out, what a browser would not take for a page."""
    if page is not None and PurePath(page).suffix.lower() not in (".html", ".htm"):
        raise InputError(
            f"{page!r} does not end in .html",
            where="--report",
            hint="a report is a page for browsers, as in report.html",
        )


def _check_lines(as_json: bool, output: str | None) -> None:
    """Refuse lines of JSON beside another output: they go to standard output."""
    if as_json or output is not None:
        other = "--json" if as_json else "-o"
        hint = "its lines, the last with the answer, go to standard output"
        raise InputError(f"--json-lines beside {other}", hint=hint)


def _check_files_of_sweep(output: str | None) -> None:
    """Refuse, before anything is worked out, files, which a sweep of plans has not."""
    if output is not None:
        hint = "ask for one of its combinations, or for --json or --report"
        raise InputError("a sweep of plans has no files", where="-o", hint=hint)


def _add_format(
    model: type[Question], flags: Mapping[str, Any], output: str | None, as_json: bool
) -> Mapping[str, Any]:
    """The flags, with the format that ``-o x.svg`` names where the flag for it is not given.

    With ``as_json`` the file is for the JSON, and its ending says nothing.
    """
    ending = PurePath(output or "").suffix.removeprefix(".").lower()
    if as_json or not ending:
        return flags
    takes = (name for name in model.model_fields if (f := flag_of(model, name)) and f.ending)
    return {**{name: ending for name in takes if flags.get(name) is None}, **_drop_missing(flags)}


def _drop_missing(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Without flags that are not given."""
    return {
        name: value for name, value in flags.items() if value is not None and value is not False
    }


def _answer_or_reuse(
    verb: str, question: Question, watcher: _Screen, before: AnswerCache | None
) -> Reply:
    """The earlier answer if there is one; else a new one, which is kept."""
    if before is None:
        return VERBS[verb].answer(question, watcher)
    begun = clock.perf_counter()
    found = before.find(verb, question)
    log.info("%s: %s in the store", verb, "not" if found is None else "found")
    if found is not None:
        return found
    reply = VERBS[verb].answer(question, watcher)
    try:
        if not watcher.interrupted:
            before.keep(verb, question, reply, clock.perf_counter() - begun)
    except InputError as error:
        typer.echo(f"collsynth: the answer is not kept: {error}", err=True)
    return reply


def _show(verb: str, body: dict[str, Any], output: str | None) -> bool:
    """Deliver an answer's files, if they go anywhere; print its table, if the verb has one.

    False if files were to go somewhere and there are none.
    """
    if "files" not in body and output is not None:
        raise InputError("this answer has no files", where="-o", hint="--json is written there")
    if body.get("files") and (output is not None or verb not in TABLES):
        deliver(judge(verb).validate_python(body).files, output)
        for note in body.get("notes", ()):
            typer.echo(note, err=True)
    elif output is not None:
        typer.echo(f"nothing is written to {output}: this answer has no files", err=True)
    if verb in TABLES:
        with flush_stdout():
            console().print(TABLES[verb](body))
    return output is None or bool(body.get("files"))


class _Interrupt:
    """Notes Ctrl-C or SIGTERM, and ends work where it next asks; a second one ends it now.

    A KeyboardInterrupt could be raised inside z3, which loses it. Work that can answer in
    ``part`` ends with what it has; other work is broken off.
    """

    def __init__(self, part: bool) -> None:
        self.pending = False
        self.part = part

    def __enter__(self) -> _Interrupt:
        self._before = {s: signal.signal(s, self._note) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *raised: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        if self.pending and not self.part and raised[0] is None:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.pending:
            os._exit(INTERRUPTED)
        self.pending = True


class _Screen(Watcher):
    """Shows progress and the best so far, and keeps the time budget.

    ``in_lines``: the best so far are lines of JSON on standard output instead.
    """

    def __init__(
        self,
        budget_seconds: float | None,
        progress: ProgressWithBest,
        interrupt: _Interrupt,
        in_lines: bool,
    ) -> None:
        self._begun = clock.monotonic()
        self._in_lines = in_lines
        self._shown: float | None = None
        self._processors = processors()
        self._interrupt = interrupt
        self._end = None if budget_seconds is None else clock.monotonic() + budget_seconds
        self._progress = progress
        self._search = progress.add_task("states explored", total=None, visible=False)
        self._task = progress.add_task("placements priced", total=None, visible=False)
        self._answers = progress.add_task("answers proved", total=None, visible=False)

    @property
    def processes(self) -> int:
        return self._processors

    @property
    def interrupted(self) -> bool:
        return self._interrupt.pending

    def go_on(self) -> bool:
        if self.interrupted and not self._interrupt.part:
            raise KeyboardInterrupt
        if self.interrupted:
            return False
        return self._end is None or clock.monotonic() < self._end

    def explored(self, states: int) -> None:
        if states % 1000 == 0:
            self._progress.update(self._search, completed=states, visible=states > 0)

    def placed(self, done: int, of: int) -> None:
        self._progress.update(self._task, completed=done, total=of, visible=of > 1)

    def judged(self, done: int, of: int) -> None:
        self._progress.update(self._answers, completed=done, total=of, visible=of > 1)

    def ranked(self, best: Callable[[], Sequence[ProvisionalResult]]) -> None:
        if not (self._in_lines or not self._progress.disable):
            return
        found = best()
        if not found or found[0].seconds == self._shown:
            return
        self._shown = found[0].seconds
        if self._in_lines:
            after = round(clock.monotonic() - self._begun, 3)
            _print_line({"after_seconds": after, "best": best_so_far_json(found)})
        else:
            self._progress.show_best(found[0])


class ProgressWithBest(Progress):
    """Progress with a line of the best so far, which rewrites itself."""

    _best = ""

    def show_best(self, best: ProvisionalResult) -> None:
        """Show a result in place of the one before."""
        gap = "" if best.gap is None else f", at most {best.gap:.0%} above the fastest possible"
        self._best = f"best so far {format_duration(best.seconds)}{gap}: {best.program}"
        self.refresh()

    def get_renderables(self) -> Iterator[RenderableType]:
        """The bars, and the best so far."""
        yield from super().get_renderables()
        if self._best:
            yield Text(self._best, no_wrap=True, overflow="ellipsis")


def _print_line(body: Mapping[str, Any]) -> None:
    typer.echo(json.dumps(body, allow_nan=False))


@contextmanager
def _watch(budget_seconds: float | None, part: bool, in_lines: bool) -> Iterator[_Screen]:
    """Progress on standard error where that is a terminal. Raises InputError for no budget."""
    if budget_seconds is not None and not budget_seconds > 0:
        raise InputError(f"the budget is {budget_seconds} s", hint="give seconds above 0")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    screen = Console(stderr=True)
    hidden = not screen.is_terminal
    with (
        _Interrupt(part) as interrupt,
        ProgressWithBest(*columns, console=screen, transient=True, disable=hidden) as progress,
    ):
        yield _Screen(budget_seconds, progress, interrupt, in_lines)


def _read(model: type[BaseModel], flags: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The keys and values of a question from its flags. Raises InputError that names the flag."""
    for key, each in lists_of(model).items():
        flags, items = collect_items(model, key, flags)
        if items:
            yield key, [dict(_read(each.item, item)) for item in items]
    given = _drop_missing(flags)
    asked_by = {name: flag for name in given if (flag := flag_of(model, name))}
    nobody = {flag.unread for flag in asked_by.values()}
    for name, flag in asked_by.items():
        key = model.model_fields[name].alias or name
        if flag.file is not None:
            reader = skip_files if key in nobody else READERS[flag.file]
            yield key, reader(given[name])
        elif flag.notation is not None:
            with error_context(flag.word):
                read = flag.notation.read(given[name])
            yield key, read
        else:
            yield key, False if flag.turns_off else given[name]
        yield from flag.also.items()
