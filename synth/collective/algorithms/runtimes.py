"""What carries collectives out on a machine, and what it can be told.

A line of the environment is worth something only to whoever has the library that reads it. GPUs of
NVIDIA have NCCL, those of AMD RCCL, which is NCCL's fork, reads its NCCL_ALGO and NCCL_PROTO
(rocm.docs.amd.com/projects/rccl, "RCCL environment variables") and has tests with the names and
flags of NVIDIA's (github.com/ROCm/rccl-tests). On TPUs XLA compiles collectives into the program,
and reads no such variable. On Trainium they are Neuron's: what ``nccom-test`` times
(awsdocs-neuron.readthedocs-hosted.com, "NCCOM-TEST User Guide": ``-r`` workers, ``-N`` instances,
``-b``, ``-e``, ``-f``, ``-n``, ``-w``, and ``allr``, ``allg``, ``redsct``). Of how these are chosen
nothing is published that we know of, nor of a variable that tells them: so nothing is said to be.

>>> runtime_of("TPU v5e", (), torus=True), runtime_of("", ("xgmi", "roce"), torus=False)
(<Runtime.XLA: 'XLA'>, <Runtime.RCCL: 'RCCL'>)
>>> runtime_of("Trainium2", (), torus=False).told
False
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from hierarchies import System


class CollectiveRuntime(Enum):
    """What carries collectives out."""

    NCCL = "NCCL"
    RCCL = "RCCL"
    XLA = "XLA"
    NEURON = "Neuron"

    @property
    def told(self) -> bool:
        """Whether it reads NCCL_ALGO and NCCL_PROTO."""
        return self in (CollectiveRuntime.NCCL, CollectiveRuntime.RCCL)

    @property
    def counted(self) -> str:
        """By whom bandwidth is counted so, in words."""
        return {
            CollectiveRuntime.NCCL: "as nccl-tests count it",
            CollectiveRuntime.RCCL: "as rccl-tests count it",
            CollectiveRuntime.XLA: "what each device of a ring sends in a second",
            CollectiveRuntime.NEURON: "as nccom-test counts it, but for its GiB",
        }[self]

    @property
    def untold(self) -> str:
        """Why a call cannot be had by another algorithm than its own; empty where it can."""
        return {
            CollectiveRuntime.XLA: "XLA is told no algorithm",
            CollectiveRuntime.NEURON: "no way is known to tell Neuron an algorithm",
        }.get(self, "")

    @property
    def unmodelled(self) -> str:
        """What is not known of its own choice; empty where a model of it is published."""
        if self is not CollectiveRuntime.NEURON:
            return ""
        return (
            "how Neuron chooses is not published: the default is what NCCL would take on such "
            "links; nccom-test times what Neuron takes"
        )

    @property
    def timing(self) -> str:
        """How its collectives are timed, where NVIDIA's tests and AMD's do not run; else empty."""
        return {
            CollectiveRuntime.XLA: (
                "time them in JAX: a file of collsynth emit --target jax does, by "
                "python collsynth_jax.py --bytes N --repeat 20; its times are not read here"
            ),
            CollectiveRuntime.NEURON: (
                "nccom-test -r WORKERS -N INSTANCES -b 1kb -e 1gb -f 4 allr times "
                "them (allg, redsct); what it prints is not read here"
            ),
        }.get(self, "")


def runtime_of(device: str, media: Collection[str], *, torus: bool) -> CollectiveRuntime:
    """By what devices are called, and by what joins them; NCCL where neither tells.

    ``torus``: nothing but tori joins them, as it joins the TPUs of a slice.
    """
    if device.startswith(("Trainium", "Inferentia")):
        return CollectiveRuntime.NEURON
    if device.startswith("TPU") or "ici" in media or torus:
        return CollectiveRuntime.XLA
    return (
        CollectiveRuntime.RCCL
        if device.startswith("Instinct") or "xgmi" in media
        else CollectiveRuntime.NCCL
    )


def runtime_of_system(system: System) -> CollectiveRuntime:
    """What carries collectives out on a system."""
    media = {link.medium for link in system.links}
    return runtime_of(system.device, media, torus=system.is_torus)
