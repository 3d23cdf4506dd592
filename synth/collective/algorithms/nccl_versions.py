"""NCCL's versions: what each changed of its algorithms and of the settings that it reads.

The default that a program is compared with depends on the version. ``CHANGES`` lists the known
changes, each with its source: the code of NVIDIA/nccl at that tag, or NVIDIA's release notes.
A version has two or three numbers: 2.28 stands for the last of its releases. RCCL has the number of
the NCCL that it was made from. Versions are of these libraries alone: XLA and Neuron have others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from grammar import Goal
from hierarchies import InputError, System
from hierarchies.devices import model_words
from synth.collective.algorithms.runtimes import runtime_of_system


class NcclVersion(NamedTuple):
    """A version of NCCL; versions compare as their numbers do."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


_LAST_PATCH = {16: 5, 17: 1, 18: 6, 19: 4, 20: 5, 21: 5, 22: 3, 23: 4, 24: 3, 25: 1, 26: 6, 27: 7,
               28: 9, 29: 7, 30: 7, 31: 2, 32: 7}  # fmt: skip
"""The last release of each minor version: NVIDIA/nccl, tags up to v2.32.7-1."""
KNOWN = f"2.{min(_LAST_PATCH)} to 2.{max(_LAST_PATCH)}"
DEFAULT = NcclVersion(2, 28, 3)
"""The version where neither the question nor a calibration states one: that of ``nccl_model``."""
PER_COLLECTIVE = NcclVersion(2, 24, 3)
"""NCCL_ALGO and NCCL_PROTO may name collectives; before, they are of all that a process sends."""
PER_CALL = NcclVersion(2, 31, 2)
"""A call may state its algorithm: ``ncclCollConfig_t``."""
NVLS_OF_TWO = NcclVersion(2, 28, 7)
"""NVLS also where two GPUs of a node are in a communicator; before, only for more."""
_NVLS, _NVLS_TREE = NcclVersion(2, 17, 1), NcclVersion(2, 18, 1)
SINCE: Mapping[str, NcclVersion] = {
    "NVLS": _NVLS,
    "NVLSTree": _NVLS_TREE,
    "PAT": NcclVersion(2, 23, 4),
}
"""Values of NCCL_ALGO that not every known version has, and the first one that has each."""
_HIERARCHICAL = {
    Goal.ALL_GATHER: NcclVersion(2, 29, 7),
    Goal.REDUCE_SCATTER: NcclVersion(2, 29, 7),
    Goal.ALL_TO_ALL: NcclVersion(2, 30, 7),
}
TUNERS: Mapping[int, NcclVersion] = {
    1: NcclVersion(2, 19, 1),
    2: NcclVersion(2, 21, 5),
    3: NcclVersion(2, 22, 3),
    4: NcclVersion(2, 24, 3),
    5: NcclVersion(2, 28, 3),
    6: NcclVersion(2, 30, 3),
    7: NcclVersion(2, 32, 6),
}
"""The interfaces of tuner plugins, and the first version that asks for each."""

_EFA_TUNER = (
    "on EFA, aws-ofi-nccl brings a tuner plugin that overrides NCCL's choice on P5, P5e, P5en and "
    "P6-B200 instances, where NCCL loads it (NCCL_DEBUG=INFO prints 'Tuner is chosen'); with "
    "OFI_NCCL_TUNER_TYPE=Internal NCCL chooses"
)
"""The choice is by its own regions of sizes and ranks (aws/aws-ofi-nccl, src/tuner/
nccl_ofi_tuner.cpp @ 0e2a0f46; on P4d NCCL's stays). NCCL loads NCCL_TUNER_PLUGIN, else a tuner in
the library of its network plugin (NVIDIA/nccl, src/plugin/tuner.cc @ 12df1a11).
"""
_EFA_DEVICES = frozenset({"H100", "H200", "B200"})


def explain_tuner(system: System) -> str:
    """Returns what else than NCCL may choose its algorithms on a machine; "" if nothing known."""
    by_efa = any(link.medium == "efa" for link in system.links)
    others = not system.device or model_words(system.device) & _EFA_DEVICES
    return _EFA_TUNER if by_efa and others and runtime_of_system(system).told else ""


@dataclass(frozen=True)
class VersionChange:
    """What a version changed, its effect on answers here, where it is stated, and how we know."""

    since: NcclVersion
    what: str
    effect: str
    where: str
    read_in: str


_SOURCE, _NOTES = "source", "notes"
CHANGES: tuple[VersionChange, ...] = (
    VersionChange(
        _NVLS, "NVLS, on one node", "the default there", "src/transport/nvls.cc", _SOURCE
    ),
    VersionChange(
        _NVLS_TREE,
        "NVLSTree, with a tree between nodes; no NVLS for 2 GPUs of a node",
        "the default over nodes",
        "src/transport/nvls.cc",
        _SOURCE,
    ),
    VersionChange(
        SINCE["PAT"],
        "PAT for all-gather and reduce-scatter, where each node has one GPU",
        "none: PAT is not priced",
        "src/graph/tuning.cc, ncclPatEnable",
        _SOURCE,
    ),
    VersionChange(
        PER_COLLECTIVE,
        "NCCL_ALGO and NCCL_PROTO by collective, as allreduce:Ring",
        "before, a setting is of all collectives of a process",
        "src/graph/tuning.cc, parseList",
        _SOURCE,
    ),
    VersionChange(
        NVLS_OF_TWO,
        "NVLS also for 2 GPUs of a node",
        "the default there",
        "src/transport/nvls.cc, ncclNvlsInit",
        _SOURCE,
    ),
    VersionChange(
        _HIERARCHICAL[Goal.REDUCE_SCATTER],
        "hierarchical reduce-scatter and all-gather, for buffers in symmetric windows",
        "an option beside the default, priced as a program of two levels",
        "src/sym_kernels.cc, kernelMask_Gin; release notes name reduce-scatter alone",
        _SOURCE,
    ),
    VersionChange(
        _HIERARCHICAL[Goal.ALL_TO_ALL],
        "hierarchical all-gather and all-to-all by copy engines (NCCL_CTA_POLICY_ZERO)",
        "an option beside the default, priced as a program of two levels",
        "src/ce_coll.cc, ncclHierCeAvailable",
        _SOURCE,
    ),
    VersionChange(
        PER_CALL,
        "a configuration for each call: algorithm, protocol, numbers of CTAs",
        "'emit --target nccl' writes it",
        "src/nccl.h.in, ncclCollConfig_t; names: src/config/algorithm_registry.cc",
        _SOURCE,
    ),
    VersionChange(
        PER_CALL,
        "PAT between nodes with NVLS inside",
        "none: PAT is not priced",
        "aws/aws-ofi-nccl pull request 1394",
        _NOTES,
    ),
    VersionChange(
        TUNERS[7],
        "a cost model of pipelines, for Vera Rubin alone, and version 7 of the tuner",
        "none: the choice on other GPUs is as before",
        "src/tuning/platforms/rubin.h; release notes of 2.32.6",
        _SOURCE,
    ),
)
"""What is known of versions, oldest first. The table of docs/trust.md is this one."""


@lru_cache(maxsize=256)
def parse_version(text: str) -> NcclVersion:
    """Returns a version such as ``2.29.7``, or the last release of ``2.29``.

    Raises InputError for text that is no version and for versions that are not known.

    >>> [str(parse_version(text)) for text in ("2.29.3", "2.29", "v2.29.3-1")]
    ['2.29.3', '2.29.7', '2.29.3']
    """
    numbers = text.strip().removeprefix("v").partition("-")[0].split(".")
    hint = f"two or three numbers, as in 2.29.7; known are {KNOWN}"
    digits = all(number.isascii() and number.isdigit() and len(number) < 4 for number in numbers)
    if not digits or len(numbers) not in (2, 3):
        raise InputError(f"{text!r} is no version of NCCL", hint=hint)
    major, minor, *patch = map(int, numbers)
    if major != 2 or minor not in _LAST_PATCH:
        raise InputError(f"NCCL {text} is not known", hint=hint)
    return NcclVersion(major, minor, patch[0] if patch else _LAST_PATCH[minor])


def known_version(text: str) -> str:
    """Returns the version that a log states, as ``2.29.7``; "" if it is none that is known."""
    try:
        return str(parse_version(text))
    except InputError:
        return ""


def version_of(system: System) -> NcclVersion:
    """Returns the version of a system: as stated, else that of its measurements, else ``DEFAULT``.

    Raises InputError as ``parse_version``.
    """
    measured = system.calibration.nccl if system.calibration else ""
    text = system.nccl or measured
    return parse_version(text) if text else DEFAULT


def stated_by(system: System) -> Literal["question", "calibration", "default"]:
    """Returns who states the version of a system: ``question``, ``calibration`` or ``default``."""
    if system.nccl:
        return "question"
    return "calibration" if system.calibration and system.calibration.nccl else "default"


def explain_other_version(system: System, measured: str) -> str:
    """Returns what to say of a log of another version than a system's, or of none that is known.

    Empty if it is the same, or if the log or the system states none.
    """
    if not measured or not runtime_of_system(system).told:
        return ""
    if not known_version(measured):
        return f"measured with version {measured}, which is not known here: known are {KNOWN}"
    version, by = version_of(system), stated_by(system)
    if by == "default" or known_version(measured) == str(version):
        return ""
    who = "the question" if by == "question" else "the calibration"
    return f"measured with version {measured}, and {who} states {version}: its default may differ"


def check_version(text: str, system: System) -> str:
    """Returns a version that a question states for a system, with three numbers.

    Raises InputError as ``parse_version``, and where another library than NCCL is used.
    """
    runtime = runtime_of_system(system)
    if not runtime.told:
        raise InputError(
            f"NCCL {text} on {system.name}, whose collectives are {runtime.value}'s",
            hint="leave it out: the version is of NCCL, or of RCCL",
        )
    return str(parse_version(text))


def check_algorithm(spelling: str, version: NcclVersion) -> None:
    """Raises InputError for a value of NCCL_ALGO that a version does not know."""
    if spelling in SINCE and version < SINCE[spelling]:
        raise InputError(
            f"NCCL {version} has no {spelling}", hint=f"NCCL {SINCE[spelling]} or later has it"
        )


def has_nvls(version: NcclVersion, per_node: int, nodes: int) -> bool:
    """Whether a version has NVLS for a communicator with so many GPUs of each of its nodes."""
    fewest = 2 if version >= NVLS_OF_TWO or version < _NVLS_TREE else 3
    return version >= (_NVLS if nodes == 1 else _NVLS_TREE) and per_node >= fewest


def hierarchical_need(goal: Goal, version: NcclVersion) -> str:
    """Returns what NCCL's own two-level kernels for a goal need; "" where it has none."""
    if goal not in _HIERARCHICAL or version < _HIERARCHICAL[goal]:
        return ""
    windows = "both buffers registered by ncclCommWindowRegister (NCCL_WIN_COLL_SYMMETRIC)"
    return f"{windows} and NCCL_CTA_POLICY_ZERO" if goal is Goal.ALL_TO_ALL else windows


def tuner_interface(version: NcclVersion) -> int:
    """Returns the newest interface of tuner plugins that a version asks for; 0 for none."""
    return max((number for number, since in TUNERS.items() if version >= since), default=0)
