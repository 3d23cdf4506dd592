"""How the processes of a configuration are started, so that each rank is where the plan has it.

A framework counts ranks by its own order of axes, and launchers count devices host by host. Where
both agree ``torchrun`` does it; where they do not, Slurm or Open MPI is told the host of every rank
(``synth.collective.emit.launchers``), or processes of ``torchrun`` take another rank than it gives
them. Devices of a host are counted by their PCI bus, as hierarchies are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from synth.collective.emit.conventions import conventions
from synth.collective.emit.frameworks import FRAMEWORKS
from synth.collective.emit.launchers import host_level, hosts, rankfile, slurm, torchrun
from synth.collective.emit.mesh import RankOrder
from synth.collective.emit.source import Files
from synth.collective.emit.text import templates
from synth.step.frameworks.asked import ConfigurationInputs, PlacedSystem

_MOST_SHOWN = 4


@dataclass(frozen=True)
class Launch:
    """``machine``: ranks counted in the framework's order. ``flag``: what makes it the default."""

    machine: PlacedSystem
    default: bool
    flag: str = ""

    @classmethod
    def of(cls, seated: PlacedSystem, order: RankOrder, able: Sequence[str] = ()) -> Launch:
        """What a framework asks for; ``able`` are flags of its own for other orders."""
        machine = replace(seated, options=replace(seated.options, rank_order=order))
        title = FRAMEWORKS[order.value].title
        [said] = [one for one in conventions(seated.placement) if one.framework == title]
        flag = said.say if said.say in able else ""
        return cls(machine, said.default or bool(flag), flag)


def write_launch(
    asked: ConfigurationInputs, how: Launch, command: str, *, before: Sequence[str] = ()
) -> Files:
    """``write_launch.sh``, and beside it what launchers need where ranks are not in their order."""
    names = hosts(how.machine)
    hierarchy = how.machine.placement.hierarchy
    text = templates("synth.step.frameworks").get_template("launch.sh.jinja")
    files: Files = {} if how.default else _write_rank_files(how.machine)
    files["launch.sh"] = text.render(
        head=asked.head,
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
    """What Slurm, Open MPI and processes of torchrun read: their files say the same.

    Of the rankfile without how it is used, which here is said by ``write_launch.sh``.
    """
    lines = str(rankfile(machine)["rankfile"]).splitlines(keepends=True)
    ranks = "".join(line for line in lines if not line.startswith("#"))
    return {**slurm(machine), "rankfile": ranks, **torchrun(machine)}
