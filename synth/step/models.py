"""Finds or traces the step of a model: a model of the zoo, or a user's own file.

JAX is imported here, and only when a step is traced: saved steps are read without it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grammar.tensors.operations import Graph, Literal, Operation, Step, Value
from grammar.tensors.sharding import Type
from hierarchies import InputError
from synth.cache.codec import Codec
from synth.cache.edition import has_library
from synth.cache.kept import KeptValues
from synth.step.zoo.sizes import ModelSource, sizes_of

if TYPE_CHECKING:
    from synth.step.zoo.models import Inference, Model

MOST_UNROLLED = 256
"""The largest number of unrolled layers; more layers take minutes to trace."""

STEPS_KEPT = 32
"""Number of traced steps that are cached: tracing is slow, and users often ask about one model."""

KEPT = KeptValues[Step]("step", Codec(Step, Graph, Operation, Value, Literal, Type), STEPS_KEPT)
"""Traced steps of earlier questions: JAX is not imported for a step that is kept."""

_JAX_SETTINGS = {
    "jax_enable_x64": False,
    "jax_numpy_dtype_promotion": "standard",
    "jax_default_matmul_precision": None,
    "jax_default_prng_impl": "threefry2x32",
    "jax_enable_custom_prng": False,
    "jax_softmax_custom_jvp": False,
    "jax_disable_jit": False,
}
"""Settings of JAX that change what is traced, and their usual values."""

LEAST_JAX = (0, 10)

OWN_PATTERN = re.compile(r"(?P<file>.+\.py):(?P<function>[A-Za-z_]\w*)")
"""A user's own model: a file and the name of a function in it."""


@dataclass(frozen=True)
class ModelSettings:
    """Options of a model of the zoo, as in ``zoo.models.ModelOptions``, and its optimizer.

    ``infer``: instead of training, process this many new tokens after those in the cache.
    """

    batch: int = 8
    optimizer: str = "adamw"
    dtype: str = "float32"
    unrolled: bool = False
    remat: bool = False
    infer: int | None = None


def zoo_step(name: ModelSource, changes: Mapping[str, int], spelling: ModelSettings) -> Step:
    """Returns the step of a model of the zoo, or of one that is described as those are.

    Raises InputError, also if JAX is not installed. Repeated calls return the same object, so that
    caches by ``IdentityKey`` hit.
    """
    return _recall_zoo(name, tuple(sorted(changes.items())), spelling)


@lru_cache(STEPS_KEPT)
def _recall_zoo(
    name: ModelSource, changes: tuple[tuple[str, int], ...], spelling: ModelSettings
) -> Step:
    check_zoo_sizes(name, dict(changes), spelling)
    if not _is_traced_as_usual():
        return _trace_zoo(name, dict(changes), spelling)
    key = repr((name, changes, spelling))
    if (kept := KEPT.find(key)) is not None:
        return kept
    step = _trace_zoo(name, dict(changes), spelling)
    KEPT.keep(key, step)
    return step


def _is_traced_as_usual() -> bool:
    """Whether JAX is installed and would trace a step as it does without settings of the user."""
    if not has_library("jax") or any(name.upper() in os.environ for name in _JAX_SETTINGS):
        return False
    jax = sys.modules.get("jax")  # not imported: that takes longer than to read a step
    return jax is None or all(
        getattr(jax.config, name, usual) == usual for name, usual in _JAX_SETTINGS.items()
    )


def _trace_zoo(name: ModelSource, changes: Mapping[str, int], spelling: ModelSettings) -> Step:
    model = _zoo_model(name, changes, spelling)
    with _require_jax():
        from synth.step.zoo.models import Inference
        from synth.step.zoo.table import inference_step_of, step_of
    if isinstance(model, Inference):
        return inference_step_of(model)
    return step_of(model, spelling.optimizer)


def zoo_function(
    name: ModelSource, changes: Mapping[str, int], spelling: ModelSettings
) -> tuple[Callable[..., Any], tuple[Any, Any, Any]]:
    """Returns the function that ``zoo_step`` traces, and the shapes of its arguments.

    The arguments are parameters, moments (the cache, for inference) and a batch. Raises InputError
    as ``zoo_step`` does.
    """
    model = _zoo_model(name, changes, spelling)
    with _require_jax():
        from synth.step.zoo.models import Inference
        from synth.step.zoo.optimizers import OPTIMIZERS
    if isinstance(model, Inference):
        return model.step, (model.parameters, model.cache, model.batch)
    how = OPTIMIZERS[spelling.optimizer]
    return how.step(model.loss), (model.parameters, how.moments(model.parameters), model.batch)


def check_zoo_sizes(name: ModelSource, changes: Mapping[str, int], spelling: ModelSettings) -> Any:
    """Returns the sizes of a model of the zoo without importing JAX.

    Raises InputError for sizes or settings that the model does not have.
    """
    if isinstance(name, str) and OWN_PATTERN.fullmatch(name):
        hint = "a model in a file of yours is code, which only the command line runs"
        raise InputError(f"no model {name!r}", hint=hint)
    sizes = sizes_of(name, changes)
    if spelling.unrolled and getattr(sizes, "layers", 0) > MOST_UNROLLED:
        problem = f"{getattr(sizes, 'layers', 0)} unrolled layers"
        hint = f"at most {MOST_UNROLLED}; or a loop of layers"
        raise InputError(problem, where=str(name), hint=hint)
    if spelling.unrolled and spelling.infer:
        problem, hint = "inference with unrolled layers", "inference uses a loop of layers"
        raise InputError(problem, where=str(name), hint=hint)
    return sizes


def _zoo_model(
    name: ModelSource, changes: Mapping[str, int], spelling: ModelSettings
) -> Model | Inference:
    sizes = check_zoo_sizes(name, changes, spelling)
    with _require_jax():
        from synth.step.zoo.models import ModelOptions
        from synth.step.zoo.table import inference_of, model_of
    how = ModelOptions(spelling.batch, spelling.unrolled, spelling.remat, spelling.dtype)
    if spelling.infer:
        return inference_of(str(name), sizes, how, spelling.infer)
    return model_of(str(name), sizes, how)


def own_step(spec: str) -> Step:
    """Traces the step of the model ``file.py:function``. This runs the file.

    The function takes no arguments. It returns ``(loss, parameters, batch)``, which AdamW trains,
    or a whole step with its arguments: ``(step, parameters, moments, batch)``. Its attribute
    ``replicated`` may name unknown primitives, which every device then computes in full.
    """
    match_ = OWN_PATTERN.fullmatch(spec)
    assert match_ is not None, spec
    with _require_jax():
        from synth.step.trace.tracing import shapes_of, trace_step
        from synth.step.zoo.optimizers import OPTIMIZERS
    file, name = match_["file"], match_["function"]
    function = getattr(_load_module(Path(file)), name, None)
    if not callable(function):
        raise InputError(f"no function {name!r}", where=file)
    try:
        given = function()
    except Exception as error:  # A user's code may raise anything.
        raise InputError(f"{type(error).__name__}: {error}", where=spec) from error
    unknown = tuple(getattr(function, "replicated", ()))
    match given:
        case (loss, parameters, batch) if callable(loss):
            adamw = OPTIMIZERS["adamw"]
            whole, arguments = adamw.step(loss), (parameters, adamw.moments(parameters), batch)
        case (step, parameters, moments, batch) if callable(step):
            whole, arguments = step, (parameters, moments, batch)
        case _:
            hint = "return (loss, parameters, batch), or (step, parameters, moments, batch)"
            raise InputError(f"it returned a {type(given).__name__}", where=spec, hint=hint)
    traced = trace_step(Path(file).stem, whole, arguments, unknown)
    _OWN_FUNCTIONS[str(traced)] = (whole, shapes_of(arguments))
    return traced


_OWN_FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, Any, Any]]] = {}
"""Functions that ``own_step`` traced in this process, keyed by the text of the step."""


def own_function(text: str) -> tuple[Callable[..., Any], tuple[Any, Any, Any]] | None:
    """Returns the function whose trace is a text, and the shapes of its arguments.

    Returns None unless ``own_step`` traced it in this process: a text alone never runs user code.
    """
    return _OWN_FUNCTIONS.get(text)


def _load_module(path: Path) -> Any:
    """Imports a file as a module; it may import files from its own folder."""
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # A user's code may raise anything.
        raise InputError(f"{type(error).__name__}: {error}", where=str(path)) from error
    finally:
        sys.path.remove(str(path.parent))
    return module


@contextmanager
def _require_jax() -> Iterator[None]:
    """Wraps imports that need JAX. Raises InputError with the command that installs it.

    Refuses an older JAX before importing it: its jaxprs have other primitives.
    """
    # Without package metadata (no JAX, or a source checkout) the import below decides.
    with suppress(PackageNotFoundError):
        found = version("jax")
        if tuple(map(int, re.findall(r"\d+", found)[:2])) < LEAST_JAX:
            raise _missing_jax_error(f"this is JAX {found}")
    try:
        yield
    except ImportError as error:
        named = (error.name or "").split(".")[0]
        # An import error inside our own modules is a bug, not a missing JAX.
        if named not in ("jax", "jaxlib"):
            raise
        raise _missing_jax_error(str(error)) from None


def _missing_jax_error(found: str) -> InputError:
    problem = f"tracing a model needs JAX {'.'.join(map(str, LEAST_JAX))} or later, and {found}"
    return InputError(problem, hint="pip install 'collsynth[jax]'")
