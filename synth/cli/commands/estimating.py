"""The commands that learn seconds of fused kernels on this machine; no service has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from synth.cli.commands.serving import USAGE, AsJson

if TYPE_CHECKING:
    from synth.train.learned.estimator import Estimator
    from synth.train.learned.judging import Error

REFUSED = 1
File = Annotated[str, typer.Argument(metavar="FILE", help="An estimator that 'train' wrote.")]
Seed = Annotated[int, typer.Option(min=0, help="Which graphs are drawn.")]
Most = Annotated[float, typer.Option(min=1, help="Seconds of the processor that they may take.")]
estimate = typer.Typer(
    no_args_is_help=True,
    help="Learn what fused kernels take here; show and check it.",
)


@estimate.command("train")
def train(
    output: Annotated[str, typer.Option("-o", "--output", help="A file for the estimator.")],
    samples: Annotated[
        str | None, typer.Option(help="Samples that were kept, instead of measuring now.")
    ] = None,
    keep: Annotated[str | None, typer.Option(help="A file for the samples.")] = None,
    each: Annotated[int, typer.Option(min=1, help="Kernels of each family and model.")] = 95,
    seed: Seed = 0,
    most_seconds: Most = 900.0,
    compiler: Annotated[
        str, typer.Option(help="What compiles them: xla (JAX), or inductor (PyTorch).")
    ] = "xla",
    as_json: AsJson = False,
) -> None:
    """Compile and measure kernels here, fit the ladder, and keep the simplest not beaten."""
    with _reporting_mistakes():
        # Not at the top of the file: they load numpy, jax and what the extra learn installs.
        from synth.train.learned.estimator import estimator_text, trained
        from synth.train.learned.samples import read_samples, samples_text

        if samples is None:
            from synth.train.learned.collecting import FAMILIES, MODELS, Collection, collected

            groups = (*FAMILIES, *MODELS)
            found = collected(Collection(groups, each, seed, most_seconds, compiler))
        else:
            found = read_samples(_read(samples), where=samples)
        if keep is not None:
            _write(keep, samples_text(found))
        made = trained(found, telling=partial(typer.echo, err=True))
        _write(output, estimator_text(made))
        _show(made, as_json)


@estimate.command("show")
def show(file: File, as_json: AsJson = False) -> None:
    """What an estimator was trained on, how far off it was, and where it holds."""
    with _reporting_mistakes():
        # Not at the top of the file: it loads numpy, and --help must not wait for it.
        from synth.train.learned.estimator import read_estimator

        _show(read_estimator(_read(file), where=file), as_json)


@estimate.command("check")
def check(
    file: File,
    each: Annotated[int, typer.Option(min=1, help="Kernels of each family and model.")] = 8,
    seed: Seed = 1,
    most_seconds: Most = 120.0,
    as_json: AsJson = False,
) -> None:
    """Measure other kernels here; the answer is no if fewer than 85 % lie in their intervals."""
    with _reporting_mistakes():
        # Not at the top of the file: they load numpy, and what measures loads jax.
        from hierarchies import InputError
        from synth.train.learned.estimator import check_machine, checked, read_estimator
        from synth.train.learned.samples import machine_here

        found = read_estimator(_read(file), where=file)
        check_machine(found, machine_here(found.machine.compiler), where=file)
        from synth.train.learned.collecting import FAMILIES, MODELS, Collection, collected

        groups, compiler = (*FAMILIES, *MODELS), found.machine.compiler
        fresh = collected(Collection(groups, each, seed, most_seconds, compiler))
        if not fresh.samples:
            problem = f"nothing could be measured: {fresh.refused}"
            raise InputError(problem, hint="let nothing else run, and check again")
        told = checked(found, fresh.samples)
        body = {**asdict(told), "holds": told.holds, "refused": fresh.refused}
        words = (
            f"{told.error.kernels} new kernels: median error {told.error.median:.0%}, nine of ten "
            f"below {told.error.p90:.0%}; {told.inside:.0%} lie in their intervals, "
            f"{told.extrapolated} were extrapolated"
        )
        typer.echo(json.dumps(body) if as_json else words)
    if not told.holds:
        raise typer.Exit(REFUSED)


def _show(one: Estimator, as_json: bool) -> None:
    # Not at the top of the file: it loads numpy, and --help must not wait for it.
    from synth.train.learned.estimator import card

    typer.echo(json.dumps(card(one)) if as_json else "\n".join(_lines(one)))


def _lines(one: Estimator) -> Iterator[str]:
    from synth.train.learned.estimator import span
    from synth.train.learned.samples import machine_words

    yield f"{one.fitted.rung}, of {one.samples} kernels, {one.date}"
    yield f"holds on {machine_words(one.machine)}; refused elsewhere"
    yield f"nine of ten kernels took {span(one)} times their estimate"
    for what, errors in (("families", one.judged.families), ("models", one.judged.models)):
        yield from _table(f"{what} held out", errors)
    yield from _table(f"{one.fitted.rung}, held out", one.judged.groups)
    for model, share in one.judged.held.items():
        yield f"  intervals that never saw {model} hold {share:.0%} of it"


def _table(head: str, errors: Mapping[str, Error]) -> Iterator[str]:
    yield f"{head:24} kernels  median     p90"
    for name, one in errors.items():
        yield f"  {name:22} {one.kernels:7}  {one.median:6.0%}  {one.p90:6.0%}"


def _read(file: str) -> str:
    # Not at the top of the file: it loads numpy, and --help must not wait for it.
    from hierarchies import InputError

    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError("it is no text", where=file) from None
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror}", where=file) from None


def _write(file: str, text: str) -> None:
    # Not at the top of the file: it loads numpy, and --help must not wait for it.
    from hierarchies import InputError

    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"it cannot be written: {error.strerror}", where=file) from None


@contextmanager
def _reporting_mistakes() -> Iterator[None]:
    """A caller's mistake, a process that failed, and an extra that is missing: one line, code 2."""
    # Not at the top of the file: it loads numpy, and --help must not wait for it.
    from hierarchies import InputError
    from synth.run import RunError

    try:
        yield
    except (InputError, RunError) as error:
        typer.echo(f"collsynth: {error}", err=True)
        raise typer.Exit(USAGE) from None
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("jax", "jaxlib", "sklearn", "torch"):
            raise
        typer.echo("collsynth: this needs more: pip install 'collsynth[learn]'", err=True)
        raise typer.Exit(USAGE) from None
