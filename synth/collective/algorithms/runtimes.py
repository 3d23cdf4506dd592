"""The libraries that execute collectives on a machine, and the settings they read.

An environment variable is useful only with the library that reads it. NVIDIA GPUs have NCCL. AMD
GPUs have RCCL, a fork of NCCL that reads its NCCL_ALGO and NCCL_PROTO
(rocm.docs.amd.com/projects/rccl, "RCCL environment variables") and has tests with the names and
flags of NVIDIA's (github.com/ROCm/rccl-tests). On TPUs XLA compiles collectives into the program
and reads no such variable. On Trainium they are Neuron's, timed by ``nccom-test``
(awsdocs-neuron.readthedocs-hosted.com, "NCCOM-TEST User Guide": ``-r`` workers, ``-N`` instances,
``-b``, ``-e``, ``-f``, ``-n``, ``-w``, and ``allr``, ``allg``, ``redsct``). We know of no
publication on how Neuron chooses, nor of a variable that sets it, so nothing is claimed.

>>> runtime_of("TPU v5e", (), torus=True), runtime_of("", ("xgmi", "roce"), torus=False)
(<CollectiveRuntime.XLA: 'XLA'>, <CollectiveRuntime.RCCL: 'RCCL'>)
>>> runtime_of("Trainium2", (), torus=False).told
False
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from hierarchies import System


class CollectiveRuntime(Enum):
    """A library that executes collectives."""

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
        """The convention by which bandwidth is counted, in words."""
        return {
            CollectiveRuntime.NCCL: "as nccl-tests count it",
            CollectiveRuntime.RCCL: "as rccl-tests count it",
            CollectiveRuntime.XLA: "what each device of a ring sends in a second",
            CollectiveRuntime.NEURON: "as nccom-test counts it, but for its GiB",
        }[self]

    @property
    def untold(self) -> str:
        """Why a call cannot use another algorithm than the default; "" where it can."""
        return {
            CollectiveRuntime.XLA: "XLA is told no algorithm",
            CollectiveRuntime.NEURON: "no way is known to tell Neuron an algorithm",
        }.get(self, "")

    @property
    def unmodelled(self) -> str:
        """What is unknown about the runtime's choice; "" where a model of it is published."""
        if self is not CollectiveRuntime.NEURON:
            return ""
        return (
            "how Neuron chooses is not published: the default is what NCCL would take on such "
            "links; nccom-test times what Neuron takes"
        )

    @property
    def timing(self) -> str:
        """How to time its collectives where nccl-tests and rccl-tests do not run; else ""."""
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
    """The runtime by the names of devices and of link media; NCCL where neither identifies it.

    ``torus``: only tori join the devices, like the TPUs of a slice.
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
    """The runtime of a system."""
    media = {link.medium for link in system.links}
    return runtime_of(system.device, media, torus=system.is_torus)
