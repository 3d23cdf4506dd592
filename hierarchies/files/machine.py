"""A whole machine as a file and answers describe it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from hierarchies.errors import error_context
from hierarchies.files.calibration import CalibrationPart
from hierarchies.files.schema import (
    GIGA,
    DevicePart,
    LevelInFull,
    MachineException,
    MachinePart,
    NonEmptyText,
)
from hierarchies.hierarchy import Hierarchy, Level
from hierarchies.system import System


class NamedMachine(MachinePart):
    """The name of a machine."""

    name: NonEmptyText = Field(description="Its name in the catalogue, or in its description.")
    title: str = Field(description="Title; may be empty.")


class Machine(NamedMachine):
    """A machine with every number of its links, and who says so."""

    usual: ClassVar = {"title": "", "launches": True, "calibration": None}

    levels: Sequence[LevelInFull] = Field(min_length=1, description="Outermost first.")
    exceptions: list[MachineException] = Field(description="Units that are missing or slower.")
    device: DevicePart = Field(description="The accelerator.")
    launches: bool = Field(description="Whether calls without a fit pay for their launch.")
    calibration: CalibrationPart | None = Field(
        description="Basis of prices: measurements, or typical links; null: as stated."
    )

    def healthy_system(self) -> System:
        """Return the machine without its exceptions. Raises InputError for one that cannot be."""
        levels, links = [], []
        for level in self.levels:
            with error_context(f"level {level.name!r}"):
                levels.append(Level(level.name, level.count))
                links.append(level.link())
        hierarchy = Hierarchy(tuple(levels))
        return System(
            self.name,
            self.title,
            hierarchy,
            tuple(links),
            self.device.memory_GB_per_s * GIGA,
            self.device.source,
            tuple(self.device.unconfirmed),
            self.calibration.calibration(hierarchy.names) if self.calibration else None,
            launches=self.launches,
        )

    def system(self) -> System:
        """Return the machine. Raises InputError for one that cannot be."""
        healthy = self.healthy_system()
        faults = [exception.fault(healthy.hierarchy) for exception in self.exceptions]
        return healthy.with_faults(faults) if faults else healthy
