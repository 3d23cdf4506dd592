"""Topology files of other tools, read into drafts of a ``System``.

Each tool describes a part of a machine: ``nvidia-smi topo -m`` the links inside a node but not
their speed, Slurm the switch of each node. Therefore an import is a *draft*: the values that the
file states, with their places, and a blank for every other value. A blank becomes ``"?"`` in the
TOML, which ``load`` refuses, because a silent guess is worse than no number.

>>> from hierarchies.importers import import_texts
>>> conf = "SwitchName=s0 Nodes=a[0-3]; SwitchName=s1 Nodes=b[0-3]; SwitchName=top Switches=s[0-1]"
>>> draft = import_texts("slurm", {"topology.conf": conf.replace("; ", chr(10))})
>>> [(level.name, level.count.value) for level in draft.levels]
[('leaf', 2), ('node', 4)]
>>> [key for level, key, blank in draft.blanks() if level == "leaf" and blank.needed]
['bandwidth_GB_per_s', 'latency_us', 'ports']
"""

from hierarchies.importers.draft import Blank as Blank
from hierarchies.importers.draft import Draft as Draft
from hierarchies.importers.draft import DraftLevel as DraftLevel
from hierarchies.importers.draft import ImportOptions as ImportOptions
from hierarchies.importers.draft import StatedValue as StatedValue
from hierarchies.importers.inside import wrap_network as wrap_network
from hierarchies.importers.kinds import KINDS as KINDS
from hierarchies.importers.kinds import FileKind as FileKind
from hierarchies.importers.kinds import check_beginnings as check_beginnings
from hierarchies.importers.kinds import import_texts as import_texts
from hierarchies.importers.structured import read_texts as read_texts
from hierarchies.importers.writing import draft_to_toml as draft_to_toml
from hierarchies.importers.writing import scale_to_unit as scale_to_unit
