"""The verb that plans a whole step, from a model, a batch and a machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, prod
from typing import Annotated, Literal, assert_never

from pydantic import Field, field_validator

from hierarchies import InputError, LevelInFull, System
from hierarchies.devices import Device
from synth.ask.answers.machine_parts import NcclPart
from synth.ask.answers.parts import Json
from synth.ask.answers.training.gained import describe_gain
from synth.ask.answers.training.planned import (
    ROWS,
    LeastMemory,
    PlanOfStep,
    RowsOfPlan,
    SearchVerdict,
    StepPlanReply,
    thin_front,
)
from synth.ask.answers.training.simulated import MeasuredOfStep, RankOfStep, SpeedOfCompute
from synth.ask.questions import notations
from synth.ask.questions.fields import CostLimit, File, Flag
from synth.ask.questions.flags import Figure
from synth.ask.questions.named_texts import NameOrText
from synth.ask.questions.question import Question
from synth.ask.reply import Outcome, Reply, reply_of_search
from synth.ask.training.gaining import programs_of
from synth.ask.training.machines import (
    Accelerator,
    FrameworkName,
    PerhapsPrecision,
    PerhapsProfile,
    accelerator_of,
    profile_of,
)
from synth.ask.training.simulated import products, size_of
from synth.ask.training.swept import SWEPT_KEYS, SweptValues, check_sweep
from synth.ask.training.traces import source_of
from synth.collective.emit.source import Files
from synth.collective.ranking.request import StoppableWatcher, UnrankedWatcher, Watcher
from synth.compute.precision import product_peak, set_precision
from synth.compute.runtimes import IDEAL, set_framework
from synth.search.space import BestFound, Found, Infeasible, NoneFound, Optimal
from synth.step.frameworks import (
    FRAMEWORKS,
    Configurations,
    ModelSpec,
    PlacedSystem,
    write_configurations,
)
from synth.step.models import ModelSettings, check_zoo_sizes
from synth.step.profiles import check_dtype
from synth.step.search.explaining import PlanningResult, list_savings
from synth.step.search.finalists import Finalist
from synth.step.search.first_plan import find_first_plan
from synth.step.search.job import PlanningProblem
from synth.step.search.links import PlacedRecipe
from synth.step.search.pins import AXES, Pins
from synth.step.search.planning import Planner
from synth.step.search.resolution import Difference, compare_seconds
from synth.step.sharding import plan_text
from synth.step.simulation.spans import list_spans
from synth.step.zoo.sizes import ModelSource, apart

_ROWS, _ROWS_OF_OTHERS = 1_000, 1_600
"""Of timelines: at most so many of each plan, and so many of all but the first together."""


_ROWS_REFUSED = InputError("they take recipes", hint="pin zero=0 to have one")


class StepPlanQuestion(Question):
    """What is asked of plans of a whole step; all of it is about a model, if there is one."""

    model: Annotated[
        NameOrText | None,
        CostLimit.TEXT,
        Flag(
            "A model of the zoo, as llama3-70b, or a config.json: plan its whole training step",
            ". A file, a folder or -",
            file=File.MODEL,
        ),
    ] = None
    batch: Annotated[Figure, Field(ge=1), Flag("Samples per step, over all devices")] = 256
    sequence: Annotated[
        Figure | None, Field(ge=1), Flag("Tokens per sample, unless the model's")
    ] = None
    sizes: Annotated[
        dict[str, Figure],
        Field(max_length=16),
        Flag(
            "Sizes that differ from the model's",
            ", as layers=2,vocabulary=512",
            notation=notations.AXES,
        ),
    ] = Field(default_factory=dict)
    dtype: Annotated[
        Literal["bfloat16", "float32"],
        Flag("Data type of compute: bfloat16 with float32 parameters, or float32"),
    ] = "bfloat16"
    precision: PerhapsPrecision = None
    optimizer: Annotated[Literal["adamw", "sgd"], Flag("Optimizer: adamw or sgd")] = "adamw"
    device: Accelerator = None
    profile: PerhapsProfile = None
    pin: Annotated[
        str,
        Field(max_length=1024),
        Flag("Pinned decisions of plans", ", as in 'tensor=8 zero=1 schedule=1f1b remat=no'"),
    ] = ""
    framework: Annotated[
        FrameworkName,
        Flag(
            "Framework that has to run the plans: only such plans are searched",
            f": {', '.join(FRAMEWORKS)}; {IDEAL}: all plans, even if no framework runs them",
        ),
    ] = ""
    explain: Annotated[
        str,
        Field(max_length=1024),
        Flag("Why not? The best plan with other pins", ", as in 'tensor=4', beside the best"),
    ] = ""

    sweep: Annotated[
        dict[str, list[NameOrText]],
        Field(max_length=len(SWEPT_KEYS)),
        CostLimit.SWEEP,
        Flag(
            "Several values of a key: a table of plans, one for each combination",
            ", as in batch=256,512 or system=dgx-h100:4,dgx-h100:8. Repeatable",
            "--sweep...",
            notations.SWEPT_VALUES,
            File.SWEPT,
        ),
    ] = Field(default_factory=dict)

    @field_validator("sweep")
    @classmethod
    def _check_sweep(cls, sweep: SweptValues) -> SweptValues:
        """Raises InputError as ``check_sweep`` does."""
        check_sweep(sweep)
        return sweep

    def pins(self) -> tuple[Pins, Pins]:
        """Those of all plans, and of the one that is asked why not. Raises InputError."""
        frameworks = (self.framework,) if self.framework in FRAMEWORKS else ()
        of_all, other = (Pins.parse(text) for text in (self.pin, self.explain))
        return Pins(of_all.values, frameworks), Pins(other.values, frameworks)

    def check_plans(self, system: System) -> None:
        """Raises InputError for a model, sizes, a device or pins of no use on a machine."""
        check_zoo_sizes(self.source(), self.changes(), self.spelling())
        profile_of(self.profile, self.accelerator(system), system.devices)
        for pins in self.pins():
            _check_pins(pins, system.check_even().devices, self.batch)

    def accelerator(self, system: System) -> Device:
        """The device, in the precision and as fast as with the framework that were asked for.

        Raises InputError for a precision that it lacks.
        """
        device = accelerator_of(system, self.device)
        computed_in = "bf16" if self.dtype == "bfloat16" else "f32"
        return set_framework(set_precision(device, self.precision, computed_in), self.framework)

    def source(self) -> ModelSource:
        """The model. Raises InputError for the text of a step, which is of one size."""
        assert self.model is not None
        source = source_of(self.model)
        if source is None:
            problem = "plans trace a model at several sizes, and this is no config.json"
            hint = "a model of the zoo or a config.json; simulate takes the text of a step"
            raise InputError(problem, where="model", hint=hint)
        return source

    def changes(self) -> dict[str, int]:
        """Other sizes than the model has."""
        length = {} if self.sequence is None else {"sequence": self.sequence}
        return {**self.sizes, **length}

    def spelling(self) -> ModelSettings:
        """How the model is written down."""
        return self.fill(ModelSettings)


def _check_pins(pins: Pins, devices: int, batch: int) -> None:
    """Raises InputError for axes that do not divide the devices, or microbatches the samples."""
    sizes = {name: int(size) for name, size in pins.values.items() if name in AXES}
    if devices % prod(sizes.values()):
        said = " ".join(f"{name}={size}" for name, size in sizes.items())
        hint = "pinned axes, one times the other, divide the devices"
        raise InputError(f"{said} on {devices} devices", where="pin", hint=hint)
    count = int(pins.values.get("microbatches", 1))
    if batch % count:
        problem = f"{batch} samples in {count} microbatches"
        raise InputError(problem, where="pin", hint="as many in each")


def plan_step(
    question: StepPlanQuestion, system: System, name: str, k: int, watcher: Watcher
) -> Reply:
    """The fastest plans of a step, simulated; and the best with what was asked for beside them.

    ``name`` is what the system is called in the question.
    """
    device = question.accelerator(system)
    profile = profile_of(question.profile, device, system.devices)
    source = question.source()
    changes = apart(source, question.changes(), gcd(question.batch, system.devices))
    job = PlanningProblem(
        source, changes, question.spelling(), system.check_even(), device, profile
    )
    pins, others = question.pins()
    hint = None
    if (first := find_first_plan(job, pins)) is not None:
        watcher.ranked(lambda: [first.candidate.provisional(1, first.seconds, first.gap)])
        hint = replace(first.candidate.recipe, layers=())
    flops, dtype = products(job.step)
    if profile and question.profile:
        check_dtype(profile, dtype, question.profile.name)
    planner = Planner(job)
    remembering = StoppableWatcher(watcher)
    found = planner.plans(pins, k, remembering, front=True, hint=hint)
    if not question.framework:
        found = _add_runnable(planner, found, pins, remembering)
    why_not = None
    if others.values and remembering.go_on():
        both = replace(others, values={**others.values, **pins.values, **others.values})
        why_not = planner.plans(both, 1, UnrankedWatcher(remembering))
    profiled = question.profile.name if question.profile else ""
    samples, tokens = size_of(job.step)
    model = str(getattr(question.model, "name", question.model))
    plans = _FoundPlans(
        model, planner, flops, dtype, tokens, profiled, question.framework, found, why_not
    )
    answer = StepPlanReply.like(
        **plans.keys,
        **_keys_of_outputs(planner, plans.best, found.finalists, pins.frameworks),
        framework=question.framework,
        speed=SpeedOfCompute.of(device, question.framework),
        system=name,
        samples=samples,
        pins=str(pins),
        why_not_pins=str(others),
        nearest=LeastMemory.of(
            found, device.memory_bytes, list_savings(job, planner.composer, pins, found)
        ),
        complete=all(result.complete for result in (found, why_not) if result)
        and not remembering.stopped,
    )
    return reply_of_search(answer, Outcome.OK if answer.plans else Outcome.NO)


def _add_runnable(
    planner: Planner, found: PlanningResult, pins: Pins, watcher: StoppableWatcher
) -> PlanningResult:
    """Adds the best plan that a framework runs, if none of the plans found is one."""
    job, runs = planner.job, replace(pins, frameworks=tuple(FRAMEWORKS))
    no_plan = not found.finalists or not watcher.go_on()
    if no_plan or any(_runners(job, plan) for plan in found.finalists):
        return found
    try:
        more = planner.plans(runs, 1, UnrankedWatcher(watcher))
    except InputError:
        return found  # No framework runs any such plan.
    finalists = (*found.finalists, *more.finalists)
    return replace(
        found,
        finalists=finalists,
        likely=planner.likely(finalists),
        looked_at=(*found.looked_at, *more.looked_at),
        complete=found.complete and more.complete,
    )


def _runners(job: PlanningProblem, plan: Finalist) -> list[str]:
    """Returns the frameworks that run a plan; none take rows of single operations."""
    return [] if plan.rows else job.rules.runners(plan.candidate.recipe)


def _refusals(job: PlanningProblem, plan: Finalist) -> list[tuple[str, str]]:
    """Returns the frameworks that do not run exactly this plan, each with the reason."""
    if plan.rows:
        return [("frameworks", str(_ROWS_REFUSED))]
    reasons = ((name, job.rules.refusal(name, plan.candidate.recipe)) for name in FRAMEWORKS)
    return [(name, reason) for name, reason in reasons if reason]


@dataclass(frozen=True)
class _FoundPlans:
    """What a search found, and what is known of the step without a plan."""

    name: str
    planner: Planner
    flops: int
    dtype: str
    tokens: int
    profile: str
    framework: str
    found: PlanningResult
    why_not: PlanningResult | None

    @cached_property
    def advised(self) -> int | None:
        """Index of the advised plan; None if nothing that fits is run by a framework."""
        job, finalists = self.planner.job, self.found.finalists
        among = [
            number
            for number, plan in enumerate(finalists)
            if self.framework == IDEAL or _runners(job, plan)
        ]
        return self.found.advised(job.device.memory_bytes, among) if among else None

    @property
    def best(self) -> Finalist | None:
        """The advised plan; None if nothing that fits is run by a framework."""
        return None if self.advised is None else self.found.finalists[self.advised]

    @property
    def keys(self) -> Json:
        """The keys of an answer about the step, the machine and all plans."""
        job, found, why_not = self.planner.job, self.found, self.why_not
        device = job.device
        proved, above = _search_verdict(found.verdict(device.memory_bytes))
        rest = _ROWS_OF_OTHERS // max(2, len(found.finalists) - 1 + (why_not is not None))
        differences = [compare_seconds(found.likely[0], seconds) for seconds in found.likely]
        beside = None
        if why_not and why_not.finalists:
            first = (found.likely or why_not.likely)[0]
            than_first = compare_seconds(first, why_not.likely[0])
            beside = self._plan(why_not.finalists[0], why_not, than_first, rest)
        return {
            "model": self.name,
            "sizes": job.changes,
            "computed_in": job.spelling.dtype,
            "precision": device.precision,
            "optimizer": job.spelling.optimizer,
            "levels": LevelInFull.of_all(job.system),
            "devices": job.system.devices,
            "prices": job.system.prices,
            "nccl": NcclPart.of(job.system),
            "device": device.name,
            "device_bytes": round(device.memory_bytes),
            "peak_flops_per_second": product_peak(device, self.dtype),
            "dtype": self.dtype,
            "tokens": self.tokens,
            "proved": proved,
            "above": above,
            "plans": [
                self._plan(plan, found, than_first, _ROWS if number == self.advised else rest)
                for number, (plan, than_first) in enumerate(
                    zip(found.finalists, differences, strict=True)
                )
            ],
            "advised": self.advised,
            "front": thin_front(list(found.front)),
            "least_seconds": found.least_seconds,
            "considered": found.search.plans,
            "fitting": found.search.fitting,
            "priced": found.search.priced,
            "usual_seconds": found.usual and found.usual.seconds,
            "usual_more": found.laid_out and compare_seconds(found.likely[0], found.laid_out),
            "refused": found.refused,
            "why_not": beside,
            "why_not_nearest": why_not and LeastMemory.of(why_not, device.memory_bytes),
            "assumed": job.assumed,
        }

    def _plan(
        self, plan: Finalist, among: PlanningResult, than_first: Difference, most: int
    ) -> PlanOfStep:
        """Returns a plan with the search's estimate and its difference from the first plan.

        Its timeline has at most ``most`` rows.
        """
        job, run, recipe = self.planner.job, plan.found, plan.candidate.recipe
        busiest, alone = run.ranks[run.busiest], plan.candidate.alone
        composed = (each.seconds for each in among.looked_at if each.candidate.alone == alone)
        peak = job.system.devices * product_peak(job.device, self.dtype)
        return PlanOfStep.like(
            plan,
            recipe,
            busiest,
            plan=plan_text(job.step, plan.plan) if plan.rows else str(recipe),
            seconds=run.seconds,
            more=than_first,
            tied=not than_first.is_clear,
            composed_seconds=plan.rows.seconds if plan.rows else next(composed),
            tokens_per_second=self.tokens / run.seconds,
            utilisation=self.flops / run.seconds / peak,
            exposed_seconds=max(0.0, busiest.exposed_seconds),
            memory=run.ranks[run.fullest].moment,
            ranks=[
                RankOfStep.of(run, rank, rows)
                for rank, rows in zip(run.ranks, list_spans(run, most), strict=True)
            ],
            measured=MeasuredOfStep.of(self.profile, plan.kinds, run, recipe.microbatches),
            gap=run.seconds / among.least_seconds - 1,
            bucket_saved_seconds=plan.saved_seconds,
            programs=[describe_gain(gain) for gain in self.planner.gaining(plan)],
            runs_on=_runners(job, plan),
            refusals=_refusals(job, plan),
            rows=RowsOfPlan.of(plan),
        )


def _keys_of_outputs(
    planner: Planner,
    best: Finalist | None,
    plans: Sequence[Finalist],
    frameworks: Sequence[str],
) -> Json:
    """Returns the keys of the advised plan's files, its gaining programs and its collectives.

    ``frameworks``: those to write for; all if empty. They accept only recipes, so a plan chosen
    operation by operation is one file in full.
    """
    keys: Json = {"programs": [], "sent": [], "perhaps_saved_seconds": 0.0, "unsupported": []}
    in_full = next((plan.plan for plan in plans if plan.rows), None)
    files: Files = {ROWS: plan_text(planner.job.step, in_full)} if in_full else {}
    if best is not None:
        sent = planner.sending(best)
        keys["sent"] = sent
        keys["perhaps_saved_seconds"] = sum(gain.perhaps_saved_seconds for gain in sent)
        if best.rows:
            keys["unsupported"] = _refusals(planner.job, best)
        else:
            written = _configurations(planner.job, best, frameworks or tuple(FRAMEWORKS))
            place = planner.job.system, best.placement
            keys["programs"], programs = programs_of(*place, planner.gaining(best), written)
            keys["unsupported"] = [(name, str(why)) for name, why in written.refused.items()]
            files = {**written.files, **programs, **files}
    texts_of = {
        name: text.decode() if isinstance(text, bytes) else text for name, text in files.items()
    }
    return {"files": texts_of, **keys}


def _configurations(
    job: PlanningProblem, best: Finalist, frameworks: Sequence[str]
) -> Configurations:
    """The files of the frameworks that can express the best plan."""
    rules = job.rules
    return write_configurations(
        best.candidate.recipe,
        ModelSpec(rules.name, rules.sizes, job.step),
        rules.job,
        PlacedSystem(job.system, best.placement),
        frameworks,
    )


def _search_verdict(found: Found[PlacedRecipe]) -> tuple[SearchVerdict, float | None]:
    match found:
        case Optimal():
            return "optimal", None
        case BestFound():
            return "best-found", found.gap
        case Infeasible():
            return "infeasible", None
        case NoneFound():
            return "none-found", None
    assert_never(found)
