"""The devices that logs name, held to those of a system: a log of another machine says nothing.

Names are spelled in many ways (``NVIDIA H100 80GB HBM3``, ``H100 SXM5 80 GB``), and the model is in
all of them:

>>> models("NVIDIA H100 80GB HBM3") & models("H100 SXM5 80 GB")
frozenset({'H100'})
>>> sorted(models("Blackwell B200 (GB200)")), models("a GPU")
(['B200', 'GB200'], frozenset())
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hierarchies import InputError, System, catalogue, load
from synth.calibration.logs.matching import host_level
from synth.calibration.logs.tables import Log

_MODEL = re.compile(r"\b(?:[A-Z]{1,2}\d{1,4}[A-Z]?|\d{4})\b")
_MOST_NAMED = 4


def models(name: str) -> frozenset[str]:
    """The words of a device's name that may be its model; none where nothing looks like one."""
    return frozenset(_MODEL.findall(name))


def check_devices(system: System, logs: Iterable[Log]) -> None:
    """Raises InputError for a log of devices that the system does not have.

    Nothing is said of devices whose name has no model, nor where the system names none.
    """
    for log in logs:
        known = all(models(name) for name in (system.device, *log.devices))
        if log.devices and known and not _of(system, log.devices):
            like = " or ".join(map(_named, machines_of([log])[:_MOST_NAMED]))
            raise InputError(
                f"{log.source} is of {' and '.join(log.devices)}, and {system.name} has "
                f"{system.device}",
                where="SYSTEM",
                hint=f"the machine may be {like}" if like else "describe the one measured",
            )


def machines_of(logs: Sequence[Log]) -> list[System]:
    """The machines of the catalogue that all logs may be of, with as many hosts as ran.

    They have the devices that the logs name, and enough of them in a host. Those of makers come
    before those of clouds, whose network is not as likely.
    """
    hosts = max((log.hosts or 1 for log in logs), default=1)
    in_a_host = max((-(-(log.ranks or 1) // (log.hosts or 1)) for log in logs), default=1)
    found = [
        load(f"{name}:{hosts}")
        for name in sorted(catalogue(), key=lambda name: (not name.startswith("dgx"), name))
        if host_level(load(name)) == 0
    ]
    return [
        system
        for system in found
        if system.hierarchy.devices_in_child(0) >= in_a_host
        and logs
        and all(_of(system, log.devices) for log in logs)
    ]


def _named(system: System) -> str:
    return f"{system.name}:{system.hierarchy.cardinalities[0]}"


def _of(system: System, devices: Iterable[str]) -> bool:
    """Whether some device is of a model that the system has."""
    return any(models(name) & models(system.device) for name in devices)
