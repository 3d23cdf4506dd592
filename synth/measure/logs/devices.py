"""Compares the devices that logs name with a system's: logs must be of the same machine.

Names have many spellings (``NVIDIA H100 80GB HBM3``, ``H100 SXM5 80 GB``). All contain the model,
and most the form, which decides whether there are NVLinks at all:

>>> model_words("NVIDIA H100 80GB HBM3") & model_words("H100 SXM5 80 GB")
frozenset({'H100'})
>>> sorted(model_words("Blackwell B200 (GB200)")), model_words("a GPU")
(['GB200'], frozenset())
>>> cards = "NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-80GB", "NVIDIA L40S"
>>> tuple(map(form_factor, cards))
('PCIE', 'SXM4', '')
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hierarchies import InputError, System, catalogue, load
from synth.measure.logs.matching import find_host_level
from synth.measure.logs.tables import CheckedLog

_MODEL = re.compile(r"\b(?:[A-Z]{1,2}\d{1,4}[A-Z]?|\d{4})\b")
_IN_BRACKETS = re.compile(r"\(([^()]*)\)")
_FORM = re.compile(r"(?<![A-Z])(SXM\d?|PCIE|NVL|OAM|DGXS|FHHL|MXM)(?![A-Z])")
_BARE_SXM = frozenset(("H100", "H200", "H800", "H20"))
"""Models whose driver names include the form (``H100 PCIe``, ``H200 NVL``), except SXM."""
_MOST_NAMED = 4


def model_words(name: str) -> frozenset[str]:
    """Returns the words of a device's name that may be its model; empty if none looks like one.

    A name in brackets is the driver's name of the chip.
    """
    inner = _IN_BRACKETS.search(name)
    return frozenset((inner and _MODEL.findall(inner[1])) or _MODEL.findall(name))


def form_factor(name: str) -> str:
    """Returns the form in a device's name (``SXM4``, ``PCIE``, ``NVL``); "" if it has none."""
    found = _FORM.search(name.upper())
    return found[1] if found else ""


def is_same_device(logged: str, described: str) -> bool:
    """Whether a driver's name in a log may be a described device's; True if either is unclear.

    Memory sizes of one model differ, but its links do not.
    """
    if not (model_words(logged) and model_words(described)):
        return True
    given = form_factor(logged) or ("SXM" if model_words(logged) & _BARE_SXM else "")
    longer, shorter = sorted((given, form_factor(described)), key=len, reverse=True)
    return bool(model_words(logged) & model_words(described)) and longer.startswith(shorter)


def check_devices(system: System, logs: Iterable[CheckedLog]) -> None:
    """Raises InputError for a log of a device that the system does not have.

    Devices whose name has no model are accepted, and all are if the system names none.
    """
    for log in logs:
        others = [name for name in log.devices if not is_same_device(name, system.device)]
        if others:
            like = " or ".join(map(_spell_system, machines_of([log])[:_MOST_NAMED]))
            raise InputError(
                f"{log.source} is of {' and '.join(others)}, and {system.name} has {system.device}",
                where="SYSTEM",
                hint=f"the machine may be {like}" if like else "describe the one measured",
            )


def machines_of(logs: Sequence[CheckedLog]) -> list[System]:
    """Returns the catalogue's machines that all logs may be of, with as many hosts as ran.

    They have the devices that the logs name, and enough of them in a host. Vendors' machines
    come before those of clouds, whose network is less likely.
    """
    hosts = max((log.hosts or 1 for log in logs), default=1)
    in_a_host = max((-(-(log.ranks or 1) // (log.hosts or 1)) for log in logs), default=1)
    found = [
        load(f"{name}:{hosts}")
        for name in sorted(catalogue(), key=lambda name: (not name.startswith("dgx"), name))
        if find_host_level(load(name)) == 0
    ]
    return [
        system
        for system in found
        if system.hierarchy.devices_in_child(0) >= in_a_host
        and logs
        and all(_is_of_system(system, log.devices) for log in logs)
    ]


def _spell_system(system: System) -> str:
    return f"{system.name}:{system.hierarchy.cardinalities[0]}"


def _is_of_system(system: System, devices: Iterable[str]) -> bool:
    """Whether all devices with a known model are the system's, and there is one."""
    named = [name for name in devices if model_words(name)]
    return (
        bool(named)
        and bool(model_words(system.device))
        and all(is_same_device(name, system.device) for name in named)
    )
