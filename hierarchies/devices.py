"""Accelerators: their stated and measured rates of arithmetic, memory and attention.

A machine's ``[device]`` names an accelerator. Its numbers are stored once, in
``catalogue/devices``, for all machines that have it. *Peak* is the rate that the maker states for
dense matrices. *Reached* is the best published measurement, on which estimates are based: the
stated rate of an H100 is 989 Tflop/s in bf16, and its fastest published matrix product ran at
794.5.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hierarchies.errors import InputError, error_context, suggest_nearest
from hierarchies.files.values import check_sources

_TERA, _GIGA, _MICROSECOND = 1e12, 1e9, 1e-6
_MODEL = re.compile(r"\b(?:[A-Z]{1,2}\d{1,4}[A-Z]?|\d{4})\b")
_IN_BRACKETS = re.compile(r"\(([^()]*)\)")
_FORM = re.compile(r"(?<![A-Z])(SXM\d?|PCIE|NVL|OAM|DGXS|FHHL|MXM)(?![A-Z])")
_BARE_SXM = frozenset(("H100", "H200", "H800", "H20"))
"""Models whose driver names include the form (``H100 PCIe``, ``H200 NVL``), except SXM."""


@dataclass(frozen=True)
class Device:
    """An accelerator.

    ``matrix_flops_per_second`` is the dense peak by element type of the operands (``bf16``,
    ``f8``), where a multiply-add counts as two operations; ``reached_flops_per_second`` the best
    measured rate, for the types that were measured. A matrix product is divided into square tiles
    of ``tile`` rows, or of ``smallest_tile`` rows for small products, each computed by one of the
    ``multiprocessors`` (for a TPU: its cores, and the side of its matrix unit).
    ``launch_seconds`` is the time of the shortest operation; ``attention_flops_per_second`` the
    measured rates of flash attention, forward and backward. ``sources`` has the source of each
    number, ``unconfirmed`` the numbers that no primary source confirms. ``precision``: how a
    runtime computes products of weights on it (``synth.compute.precision``); empty if their
    operands are not quantized. ``compute_factor``: seconds of compute over those of these rates
    (``synth.compute.runtimes``).
    """

    name: str
    memory_bytes: float
    memory_bytes_per_second: float
    multiprocessors: int
    smallest_tile: int
    tile: int
    matrix_flops_per_second: Mapping[str, float]
    reached_flops_per_second: Mapping[str, float]
    reached_bytes_per_second: float | None
    launch_seconds: float
    attention_flops_per_second: tuple[float, float] | None
    sources: Mapping[str, str]
    unconfirmed: tuple[str, ...] = ()
    precision: str = ""
    compute_factor: float = 1.0

    def peak(self, dtype: str) -> float:
        """Peak floating-point operations per second. Raises InputError for an unknown type."""
        kind = _kind(dtype)
        if kind not in self.matrix_flops_per_second:
            known = ", ".join(self.matrix_flops_per_second)
            raise InputError(
                f"no matrix rate of {dtype} is known of {self.name}", hint=f"known are: {known}"
            )
        return self.matrix_flops_per_second[kind]

    def reached(self, dtype: str) -> float | None:
        """Returns the best measured rate with this type, None if it was not measured."""
        return self.reached_flops_per_second.get(_kind(dtype))


def _kind(dtype: str) -> str:
    """Returns the key of a type's rates; all eight-bit formats share one rate."""
    return "f8" if dtype.startswith("f8") else dtype


class _DeviceEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(min_length=1)
    memory_GB: float = Field(gt=0)  # noqa: N815 - the unit in its usual spelling
    memory_GB_per_s: float = Field(gt=0)  # noqa: N815
    multiprocessors: int = Field(ge=1)
    tile: Annotated[list[int], Field(min_length=2, max_length=2)]
    matrix_TFLOP_per_s: dict[str, float]  # noqa: N815
    reached_TFLOP_per_s: dict[str, float] = {}  # noqa: N815
    reached_GB_per_s: float | None = None  # noqa: N815
    launch_us: float = Field(ge=0)
    attention_TFLOP_per_s: Annotated[list[float], Field(min_length=2, max_length=2)] | None = None  # noqa: N815
    unconfirmed: list[str] = []
    source: dict[str, str]


_NUMBERS = [
    name for name in _DeviceEntry.model_fields if name not in ("name", "unconfirmed", "source")
]


def read_device(text: str, *, where: str = "device") -> Device:
    """Returns the device that a TOML text describes. Raises InputError if the text is invalid."""
    try:
        entry = _DeviceEntry.model_validate(tomllib.loads(text))
    except ValidationError as error:
        [first, *_] = error.errors()
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{place}: {first['msg'].lower()}", where=where) from None
    except ValueError as error:
        raise InputError(f"not a TOML file: {error}", where=where) from None
    given = [name for name in _NUMBERS if name in entry.model_fields_set]
    with error_context(where):
        check_sources(entry.source, entry.unconfirmed, given)
    for kind, reached in entry.reached_TFLOP_per_s.items():
        if not 0 < reached <= entry.matrix_TFLOP_per_s.get(kind, 0.0):
            raise InputError(f"{reached} reached in {kind}, more than the peak", where=where)
    if entry.attention_TFLOP_per_s:
        fastest, peak = max(entry.attention_TFLOP_per_s), max(entry.matrix_TFLOP_per_s.values())
        if not 0 < min(entry.attention_TFLOP_per_s) <= fastest <= peak:
            raise InputError(f"attention at {fastest}, not between 0 and the peak", where=where)
    if entry.reached_GB_per_s and entry.reached_GB_per_s > entry.memory_GB_per_s:
        raise InputError(f"{entry.reached_GB_per_s} GB/s reached, above the peak", where=where)
    return _device(entry)


def _device(entry: _DeviceEntry) -> Device:
    smallest, usual = sorted(entry.tile)
    attention = entry.attention_TFLOP_per_s
    return Device(
        entry.name,
        entry.memory_GB * _GIGA,
        entry.memory_GB_per_s * _GIGA,
        entry.multiprocessors,
        smallest,
        usual,
        _scale_rates(entry.matrix_TFLOP_per_s),
        _scale_rates(entry.reached_TFLOP_per_s),
        entry.reached_GB_per_s * _GIGA if entry.reached_GB_per_s else None,
        entry.launch_us * _MICROSECOND,
        (attention[0] * _TERA, attention[1] * _TERA) if attention else None,
        dict(entry.source),
        tuple(entry.unconfirmed),
    )


def _scale_rates(rates: Mapping[str, float]) -> dict[str, float]:
    return {kind: rate * _TERA for kind, rate in rates.items()}


@cache
def devices() -> Mapping[str, Device]:
    """Returns the known devices by name, as the catalogue's machines refer to them."""
    known = [
        read_device(file.read_text(encoding="utf-8"), where=file.name)
        for file in sorted(_folder().iterdir(), key=lambda file: file.name)
    ]
    return {device.name: device for device in known}


def device_named(name: str) -> Device:
    """Returns the device with this name. Raises InputError for an unknown device."""
    if name not in devices():
        hint = suggest_nearest(name, list(devices()))
        raise InputError(f"no rates are known of the device {name!r}", hint=hint)
    return devices()[name]


def _folder() -> Traversable:
    return resources.files("hierarchies").joinpath("catalogue", "devices")


def model_words(name: str) -> frozenset[str]:
    """Returns the words of a device's name that may be its model; empty if there are none.

    Names have many spellings, all of which contain the model. A name in brackets is the driver's
    name of the chip.

    >>> model_words("NVIDIA H100 80GB HBM3") & model_words("H100 SXM5 80 GB")
    frozenset({'H100'})
    >>> sorted(model_words("Blackwell B200 (GB200)")), model_words("a GPU")
    (['GB200'], frozenset())
    """
    inner = _IN_BRACKETS.search(name)
    return frozenset((inner and _MODEL.findall(inner[1])) or _MODEL.findall(name))


def form_factor(name: str) -> str:
    """Returns the form factor in a device's name, which decides whether it has NVLinks, or "".

    >>> cards = "NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-80GB", "NVIDIA L40S"
    >>> tuple(map(form_factor, cards))
    ('PCIE', 'SXM4', '')
    """
    found = _FORM.search(name.upper())
    return found[1] if found else ""


def is_same_device(logged: str, described: str) -> bool:
    """Whether a driver's name in a log may denote a described device; True if either is unclear.

    A model may have several memory sizes, which are ignored because its links are the same.
    """
    if not (model_words(logged) and model_words(described)):
        return True
    given = form_factor(logged) or ("SXM" if model_words(logged) & _BARE_SXM else "")
    longer, shorter = sorted((given, form_factor(described)), key=len, reverse=True)
    return bool(model_words(logged) & model_words(described)) and longer.startswith(shorter)
