"""Starts the processes of a configuration, with each rank where the plan places it.

A framework counts ranks by its own order of axes, and launchers count devices host by host. If both
agree, ``torchrun`` suffices. If they do not, Slurm or Open MPI is given the host of every rank
(``synth.collective.emit.launchers``), or processes of ``torchrun`` override the rank that it
assigns. Devices of a host are counted by their PCI bus, as in hierarchies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from synth.collective.emit.conventions import conventions
from synth.collective.emit.frameworks import FRAMEWORKS
from synth.collective.emit.launchers import (
    PlacedSystem,
    host_level,
    hosts,
    rankfile,
    slurm,
    torchrun,
)
from synth.collective.emit.mesh import RankOrder
from synth.collective.emit.source import Files
from synth.collective.emit.text import templates
from synth.step.frameworks.inputs import ConfigurationInputs

_MOST_SHOWN = 4


@dataclass(frozen=True)
class Launch:
    """How a configuration starts its processes.

    ``machine``: with ranks in the framework's order. ``default``: whether launchers agree with that
    order. ``flag``: the framework's option that makes them agree, if it has one.
    """

    machine: PlacedSystem
    default: bool
    flag: str = ""

    @classmethod
    def of(cls, seated: PlacedSystem, order: RankOrder, able: Sequence[str] = ()) -> Launch:
        """Returns the launch of a framework; ``able`` has its flags for other orders of ranks."""
        machine = replace(seated, options=replace(seated.options, rank_order=order))
        title = FRAMEWORKS[order.value].title
        [convention] = [c for c in conventions(seated.placement) if c.framework == title]
        flag = convention.say if convention.say in able else ""
        return cls(machine, convention.default or bool(flag), flag)

    @property
    def order(self) -> RankOrder:
        """How the processes it starts are numbered."""
        return RankOrder.MACHINE if self.default else self.machine.options.rank_order


def write_launch(
    inputs: ConfigurationInputs, how: Launch, command: str, *, before: Sequence[str] = ()
) -> Files:
    """Writes ``launch.sh``, and the files that launchers need if ranks are not in their order."""
    names = hosts(how.machine)
    hierarchy = how.machine.placement.hierarchy
    text = templates("synth.step.frameworks").get_template("launch.sh.jinja")
    files: Files = {} if how.default else _write_rank_files(how.machine)
    files["launch.sh"] = text.render(
        head=inputs.head,
        default=how.default,
        before=before,
        command=command,
        hosts=len(names),
        each=hierarchy.devices_in_child(host_level(how.machine)),
        devices=hierarchy.devices,
        first=names[0],
        names=f"{', '.join(names[:_MOST_SHOWN])}{', ...' if len(names) > _MOST_SHOWN else ''}",
    )
    return files


def _write_rank_files(machine: PlacedSystem) -> Files:
    """Writes the files that Slurm, Open MPI and torchrun processes read, with the same ranks.

    The rankfile has no usage lines, because ``launch.sh`` explains its use.
    """
    lines = str(rankfile(machine)["rankfile"]).splitlines(keepends=True)
    ranks = "".join(line for line in lines if not line.startswith("#"))
    return {**slurm(machine), "rankfile": ranks, **torchrun(machine)}
