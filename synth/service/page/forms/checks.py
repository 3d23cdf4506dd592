"""Quick checks of the questions of forms, without a search for programs.

They use the same models and functions as the answer, so the errors are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from hierarchies import InputError, Reduction, System, count_placements, placements
from hierarchies.units import format_bytes
from synth.ask.measured import CalibrateQuestion, DoctorQuestion, LogsQuestion
from synth.ask.planning import PlanQuestion
from synth.ask.questions.named_texts import job_of, system_of
from synth.ask.questions.question import axes_of, parse_question
from synth.ask.ranking import CostQuestion, SweepQuestion, TopQuestion
from synth.ask.training.machines import accelerator_of, profile_of
from synth.collective.ranking.advice import find_left_over_axes, fix_placement
from synth.measure.logs.matching import machines_of
from synth.measure.logs.tables import CheckedLog
from synth.service.page.forms.fields import OWN_JOB, OWN_MODEL, OWN_SYSTEM, FormFindings
from synth.service.page.forms.form import QuestionForm
from synth.show.terminal.style import pluralize
from synth.step.search.pins import Pins
from synth.step.zoo.sizes import sizes_of

_MOST_DEVICES = 2**20


def check(
    form: QuestionForm,
    parsed: Mapping[str, Any],
    checked: FormFindings,
    limit: Callable[[Any], None],
) -> FormFindings:
    """Note problems by field, and facts about machines, axes, jobs, models and logs.

    ``limit`` raises InputError if a question exceeds this server's limits.
    """
    whole = {**parsed} if "collectives" in parsed else {**form.stubs, **parsed}
    sound = _drop_wrong_fields(form, whole, checked)
    try:
        limit(sound)
    except InputError as error:
        checked.note(_field(form, error), error)
    with checked.noting("system"):
        match sound:
            case TopQuestion():
                _check_machine(sound, sound.machine(), checked)
            case SweepQuestion():
                _check_machines(sound, checked)
            case CostQuestion():
                machine = sound.machine()
                _tell_machine(machine, checked)
                _check_axes(sound, machine, checked)
            case PlanQuestion() if sound.model is not None:
                _check_step(sound, checked)
            case PlanQuestion():
                _tell_machine(sound.machine(), checked)
            case LogsQuestion():
                _check_logs(sound, system_of(sound.system), checked)
    if isinstance(sound, PlanQuestion) and sound.job is not None:
        with checked.noting("job"):
            job = job_of(sound.job)
            axes = ", ".join(axis.name for axis in job.axes)
            checked.tell("job", f"{pluralize(len(job.entries), 'collective')} over {axes}")
    return checked


def _drop_wrong_fields(form: QuestionForm, parsed: dict[str, Any], checked: FormFindings) -> Any:
    """Parse a question without its invalid fields, which are noted; stubs replace required ones."""
    while True:
        try:
            return parse_question(form.model, parsed)
        except InputError as error:
            name, key = _field(form, error), _key(error)
            checked.note(name, error)
            if key not in parsed and name in form.boxes:
                key = form.boxes[name].name
            if key == "collectives" and key in parsed:
                parsed["reduce"] = parsed.pop("collectives")[0]["reduce"]
            elif key in form.stubs and parsed.get(key) != form.stubs[key]:
                parsed[key] = form.stubs[key]
            elif key in parsed and key not in form.stubs:
                del parsed[key]
            else:
                return parse_question(form.model, {**form.stubs, **form.fixed})


def _key(error: InputError) -> str:
    """Return the key of a question that an error is about."""
    if error.where.startswith(OWN_SYSTEM):
        return "system"
    if error.where.startswith(OWN_JOB):
        return "job"
    if error.where.startswith(OWN_MODEL):
        return "model"
    return error.where.partition(".")[0].partition(",")[0]


def _field(form: QuestionForm, error: InputError) -> str:
    """Return the field of a form that an error is about."""
    key = _key(error)
    if key == "collectives":
        _, number, place = (*error.where.split(".", 2), "", "")[:3]
        return place.partition(".")[0] if number == "0" else "sent"
    return form.where.get(key, form.needs[0])


def _check_machine(sound: TopQuestion, system: System, checked: FormFindings) -> None:
    """Note the machine's devices, and whether the axes and the reduction fit it."""
    _tell_machine(system, checked)
    remaining = system.devices - len(system.missing)
    if "axes" in checked.wrong:
        return
    product = prod(sound.axes.values())
    if product in (remaining, system.devices):  # otherwise a problem is noted
        checked.tell("axes", f"product {product} of {remaining} devices")
    with checked.noting("axes"):
        axes = axes_of(sound.axes)
        if system.missing and not sound.collectives:
            sound.asked()
        elif system.devices <= _MOST_DEVICES:
            count = count_placements(system.hierarchy, axes)
            checked.tell("axes", f"; {pluralize(count, 'placement')}")
            _check_sent(sound, system, checked)


def _tell_machine(system: System, checked: FormFindings) -> None:
    """Note the facts of a machine."""
    levels = " × ".join(f"{level.cardinality} {level.name}" for level in system.hierarchy.levels)
    checked.tell("system", f"{levels}: {system.devices} devices")
    if system.prices == "calibrated":
        checked.tell("system", ", calibrated on its measurements")
    if system.missing:
        checked.tell("system", f", {system.devices - len(system.missing)} of them left")


def _check_sent(sound: TopQuestion, system: System, checked: FormFindings) -> None:
    """Note problems of the collectives, and axes without a collective."""
    if sound.collectives:
        with checked.noting("sent"):
            sound.job()
            system.check_even()
        return
    with checked.noting("reduce"):
        first = next(placements(system.hierarchy, axes_of(sound.axes)))
        Reduction(first, tuple(sound.reduce or ()))
        request = sound.asked()
        if fix_placement(system, request) is not request:
            left_over = " and ".join(find_left_over_axes(request))
            fact = f"{left_over}: its collectives are not given, so the placement"
            checked.tell("reduce", fact)
            checked.tell("reduce", " is the one that frameworks use; add its collectives below")


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
    if "axes" in checked.wrong or machine.devices > _MOST_DEVICES:
        return
    if "axes" not in checked.facts:
        checked.tell("axes", f"product {prod(sound.axes.values())}")
    if machine.missing and isinstance(sound, SweepQuestion):
        return
    axes = axes_of(sound.axes)
    with checked.noting("axes"):
        count_placements(machine.hierarchy, axes)
        first = next(placements(machine.hierarchy, axes))
        with checked.noting("reduce"):
            Reduction(first, tuple(sound.reduce or ()))


def _check_step(sound: PlanQuestion, checked: FormFindings) -> None:
    """Note the machine, the model's size and the tokens of a step, and invalid pins."""
    with checked.noting("system"):
        machine = sound.machine()
        _tell_machine(machine, checked)
        machine.check_even()
        with checked.noting("device"):
            device = accelerator_of(machine, sound.device)
            checked.tell("device", f"{device.name}, {format_bytes(device.memory_bytes)}")
            with checked.noting("profile"):
                profile_of(sound.profile, device, machine.devices)
    for name in ("pin", "explain"):
        try:
            Pins.parse(getattr(sound, name))
        except InputError as error:
            checked.note(name, error)
    if "model" in checked.wrong:
        return
    cut = {} if sound.sequence is None else {"sequence": sound.sequence}
    with checked.noting("model"):
        sizes = sizes_of(sound.source(), {**sound.sizes, **cut})
        layers = getattr(sizes, "layers", 0)
        depth = f"{layers} layers" if layers else "blocks that differ"
        checked.tell("model", f"{depth}, width {sizes.width:,}")
        if tokens := getattr(sizes, "sequence", 0):
            checked.tell("batch", f"{sound.batch * tokens:,} tokens a step, {tokens:,} a sample")


def _check_logs(sound: LogsQuestion, system: System, checked: FormFindings) -> None:
    _tell_machine(system, checked)
    if isinstance(sound, CalibrateQuestion) and sound.plan:
        checked.tell("only", pluralize(len(sound.tests(system)), "test"))
    elif sound.files:
        with checked.noting("logs"):
            _tell_logs(sound.logs(), system, checked)
            runs = sound.matched(system).runs
            if isinstance(sound, DoctorQuestion):
                with checked.noting("baseline"):
                    sound.baselines(system, runs)


def _tell_logs(logs: Sequence[CheckedLog], system: System, checked: FormFindings) -> None:
    """Note the contents of the logs, and suggest their machine if another machine is chosen."""
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
