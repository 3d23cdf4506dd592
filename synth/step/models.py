"""Where a step comes from: the zoo, a text that was kept, or a model of one's own.

JAX is loaded here and only when a step is traced: reading a kept text needs none.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grammar.tensors.operations import Step
from hierarchies import InputError
from synth.step.zoo.sizes import sizes_of

if TYPE_CHECKING:
    from synth.step.zoo.models import Inference, Model

MOST_UNROLLED = 256
"""More layers than these one after the other take minutes to trace."""

STEPS_KEPT = 32
"""To trace a step takes longer than most that is asked of it, and a user asks of one model."""

LEAST_JAX = (0, 10)

OWN_PATTERN = re.compile(r"(?P<file>.+\.py):(?P<function>[A-Za-z_]\w*)")
"""A model of one's own: a file, and a function in it."""


@dataclass(frozen=True)
class ModelSettings:
    """How a model of the zoo is written down, as ``zoo.models.How`` says, and what trains it.

    ``infer``: it is not trained, but reads so many new tokens after those that it keeps.
    """

    batch: int = 8
    optimizer: str = "adamw"
    dtype: str = "float32"
    unrolled: bool = False
    remat: bool = False
    infer: int | None = None


def zoo_step(name: str, changes: Mapping[str, int], spelling: ModelSettings) -> Step:
    """The step of a model of the zoo. Raises InputError, also where JAX is not installed.

    Who asks again soon gets the same object: what is known of it (``same.Same``) is known still.
    """
    return _trace_zoo(name, tuple(sorted(changes.items())), spelling)


@lru_cache(STEPS_KEPT)
def _trace_zoo(name: str, changes: tuple[tuple[str, int], ...], spelling: ModelSettings) -> Step:
    model = _zoo_model(name, dict(changes), spelling)
    with _require_jax():
        from synth.step.zoo.models import Inference
        from synth.step.zoo.table import inference_step_of, step_of
    if isinstance(model, Inference):
        return inference_step_of(model)
    return step_of(model, spelling.optimizer)


def zoo_function(
    name: str, changes: Mapping[str, int], spelling: ModelSettings
) -> tuple[Callable[..., Any], tuple[Any, Any, Any]]:
    """The function that ``zoo_step`` traces, and the shapes of what it is called with.

    They are parameters, moments (of inference the cache) and a batch. Raises InputError as
    ``zoo_step`` does.
    """
    model = _zoo_model(name, changes, spelling)
    with _require_jax():
        from synth.step.zoo.models import Inference
        from synth.step.zoo.optimizers import OPTIMIZERS
    if isinstance(model, Inference):
        return model.step, (model.parameters, model.cache, model.batch)
    how = OPTIMIZERS[spelling.optimizer]
    return how.step(model.loss), (model.parameters, how.moments(model.parameters), model.batch)


def check_zoo_sizes(name: str, changes: Mapping[str, int], spelling: ModelSettings) -> Any:
    """The sizes of a model of the zoo, which may be written down so. Raises InputError; no JAX."""
    if OWN_PATTERN.fullmatch(name):
        hint = "a model of one's own is code, which only the command line runs, on its own machine"
        raise InputError(f"no model {name!r}", hint=hint)
    sizes = sizes_of(name, changes)
    if spelling.unrolled and getattr(sizes, "layers", 0) > MOST_UNROLLED:
        problem = f"{getattr(sizes, 'layers', 0)} layers one after the other"
        raise InputError(problem, where=name, hint=f"at most {MOST_UNROLLED}; or as a loop")
    if spelling.unrolled and spelling.infer:
        raise InputError("inference layer by layer", where=name, hint="it is written as a loop")
    return sizes


def _zoo_model(name: str, changes: Mapping[str, int], spelling: ModelSettings) -> Model | Inference:
    sizes = check_zoo_sizes(name, changes, spelling)
    with _require_jax():
        from synth.step.zoo.models import ModelOptions
        from synth.step.zoo.table import inference_of, model_of
    how = ModelOptions(spelling.batch, spelling.unrolled, spelling.remat, spelling.dtype)
    if spelling.infer:
        return inference_of(name, sizes, how, spelling.infer)
    return model_of(name, sizes, how)


def own_step(spec: str) -> Step:
    """The step that ``file.py:function`` returns what is needed for. This runs the file.

    The function takes nothing and returns ``(loss, parameters, batch)``, which AdamW trains, or
    a whole step with what it is called with: ``(step, parameters, moments, batch)``. Its attribute
    ``replicated`` may name primitives that are not known, and that every device is to do whole.
    """
    found = OWN_PATTERN.fullmatch(spec)
    assert found is not None, spec
    with _require_jax():
        from synth.step.trace.tracing import shapes_of, trace_step
        from synth.step.zoo.optimizers import OPTIMIZERS
    function = getattr(_load_module(Path(found["file"])), found["function"], None)
    if not callable(function):
        raise InputError(f"no function {found['function']!r}", where=found["file"])
    try:
        given = function()
    except Exception as error:  # whatever the code of somebody else may raise
        raise InputError(f"{type(error).__name__}: {error}", where=spec) from error
    name = Path(found["file"]).stem
    unknown = tuple(getattr(function, "replicated", ()))
    match given:
        case (loss, parameters, batch) if callable(loss):
            adamw = OPTIMIZERS["adamw"]
            whole, called_with = adamw.step(loss), (parameters, adamw.moments(parameters), batch)
        case (step, parameters, moments, batch) if callable(step):
            whole, called_with = step, (parameters, moments, batch)
        case _:
            hint = "return (loss, parameters, batch), or (step, parameters, moments, batch)"
            raise InputError(f"it returned a {type(given).__name__}", where=spec, hint=hint)
    made = trace_step(name, whole, called_with, unknown)
    _OWN_FUNCTIONS[str(made)] = (whole, shapes_of(called_with))
    return made


_OWN_FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, Any, Any]]] = {}
"""What this process has traced by ``own_step``, by its text."""


def own_function(text: str) -> tuple[Callable[..., Any], tuple[Any, Any, Any]] | None:
    """The function whose trace a text is, and the shapes of what it is called with.

    None unless ``own_step`` traced it in this process: a text alone never runs anybody's code.
    """
    return _OWN_FUNCTIONS.get(text)


def _load_module(path: Path) -> Any:
    """The module that a file is; what it imports may lie beside it."""
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the code of somebody else may raise
        raise InputError(f"{type(error).__name__}: {error}", where=str(path)) from error
    finally:
        sys.path.remove(str(path.parent))
    return module


@contextmanager
def _require_jax() -> Iterator[None]:
    """Around imports that need JAX. Raises InputError that says how to have it.

    An older JAX is refused before it is loaded: its jaxprs have other primitives.
    """
    with suppress(PackageNotFoundError):
        found = version("jax")
        if tuple(map(int, re.findall(r"\d+", found)[:2])) < LEAST_JAX:
            raise _missing_jax_error(f"this is {found}")
    try:
        yield
    except ImportError as error:
        named = (error.name or "").split(".")[0]
        if named not in ("jax", "jaxlib"):
            raise
        raise _missing_jax_error(str(error)) from None


def _missing_jax_error(found: str) -> InputError:
    problem = f"tracing a model needs JAX {'.'.join(map(str, LEAST_JAX))} or later, and {found}"
    return InputError(problem, hint="pip install 'collsynth[jax]'")
