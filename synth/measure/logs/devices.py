"""Compares the devices that logs name with a system's: logs must be of the same machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hierarchies import InputError, System, catalogue, load
from hierarchies.device_names import is_same_device, model_words
from synth.measure.logs.matching import find_host_level
from synth.measure.logs.tables import CheckedLog

_MOST_NAMED = 4


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
