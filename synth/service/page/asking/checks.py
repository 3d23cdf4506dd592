"""Quick checks of the questions of these forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from hierarchies import InputError, Reduction, System, count_placements, placements
from synth.ask.measured import CalibrateQuestion, LogsQuestion
from synth.ask.planning import CostQuestion, PlanQuestion, SweepQuestion
from synth.ask.questions.named_texts import job_of, system_of
from synth.ask.questions.question import Question, axes_of, parse_question
from synth.measure.logs.matching import machines_of
from synth.measure.logs.tables import CheckedLog
from synth.service.page.asking.rows import VerbForm
from synth.service.page.forms import MOST_DEVICES, FormFindings, tell_machine
from synth.show.terminal.style import pluralize


def check(
    form: VerbForm, parsed: Mapping[str, Any], checked: FormFindings, limit: Callable[[Any], None]
) -> FormFindings:
    """Note problems by field, and facts about machines, axes, jobs and logs.

    ``limit`` raises InputError if a question exceeds this server's limits.
    """
    sound = _drop_wrong_fields(form, {**form.stubs, **parsed}, checked)
    with checked.noting(form.needs[0]):
        limit(sound)
    match sound:
        case SweepQuestion():
            _check_machines(sound, checked)
        case CostQuestion():
            with checked.noting("system"):
                machine = sound.machine()
                tell_machine(machine, checked)
                _check_axes(sound, machine, checked)
        case PlanQuestion():
            with checked.noting("system"):
                tell_machine(sound.machine(), checked)
            with checked.noting("job"):
                assert sound.job is not None
                job = job_of(sound.job)
                axes = ", ".join(axis.name for axis in job.axes)
                checked.tell("job", f"{pluralize(len(job.entries), 'collective')} over {axes}")
        case LogsQuestion():
            with checked.noting("system"):
                _check_logs(sound, system_of(sound.system), checked)
    return checked


def _check_machines(sound: SweepQuestion, checked: FormFindings) -> None:
    facts = []
    for top in sound.tops():
        with checked.noting("systems"):
            machine = top.machine()
            facts.append(f"{top.system_name}: {machine.devices} devices")
            _check_axes(sound, machine, checked)
    checked.tell("systems", "; ".join(facts))


def _check_axes(
    sound: SweepQuestion | CostQuestion, machine: System, checked: FormFindings
) -> None:
    """Note axes that do not fit the machine, and an invalid reduction over them."""
    if "axes" in checked.wrong or machine.devices > MOST_DEVICES:
        return
    if "axes" not in checked.told:
        checked.tell("axes", f"product {prod(sound.axes.values())}")
    if machine.missing and isinstance(sound, SweepQuestion):
        return
    axes = axes_of(sound.axes)
    with checked.noting("axes"):
        count_placements(machine.hierarchy, axes)
        first = next(placements(machine.hierarchy, axes))
        with checked.noting("reduce"):
            Reduction(first, tuple(sound.reduce or ()))


def _check_logs(sound: LogsQuestion, system: System, checked: FormFindings) -> None:
    tell_machine(system, checked)
    if isinstance(sound, CalibrateQuestion) and sound.plan:
        checked.tell("only", pluralize(len(sound.tests(system)), "test"))
    elif sound.files:
        with checked.noting("logs"):
            _tell_logs(sound.logs(), system, checked)
            sound.matched(system)


def _tell_logs(logs: Sequence[CheckedLog], system: System, checked: FormFindings) -> None:
    """Note what the logs contain, and suggest their machine if another one is chosen."""
    rows = sum(len(log.rows) for log in logs)
    checked.tell("logs", f"{pluralize(len(logs), 'table')}, {pluralize(rows, 'row')}")
    devices = dict.fromkeys(name for log in logs for name in log.devices)
    if devices:
        checked.tell("logs", f", of {', '.join(devices)}")
    machines = machines_of(logs)
    names = [machine.name for machine in machines]
    if machines and (system.name not in names or system.devices < machines[0].devices):
        suits = system.name if system.name in names else names[0]
        checked.suits.update(system=suits, count=str(machines[0].hierarchy.cardinalities[0]))


def _drop_wrong_fields(form: VerbForm, parsed: dict[str, Any], checked: FormFindings) -> Any:
    """Parse a question without its wrong fields, which are noted; required ones become stubs."""
    model: type[Question] = form.model
    while True:
        try:
            return parse_question(model, parsed)
        except InputError as error:
            key = error.where.partition(".")[0].partition(",")[0]
            checked.note(form.where.get(key, form.needs[0]), error)
            if key in form.stubs and parsed.get(key) != form.stubs[key]:
                parsed[key] = form.stubs[key]
            elif key in parsed and key not in form.stubs:
                del parsed[key]
            else:
                return parse_question(model, dict(form.stubs))
