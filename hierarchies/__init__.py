"""Machines, the placement of parallelism axes on them, and reductions.

A machine is a tree of levels whose leaves are the devices. A ``System`` states, for each level, how
its children are linked and at which bandwidth. A placement assigns parts of axes to levels, and a
reduction determines which devices work together. Four nodes of eight GPUs admit three placements of
data=8, model=4. The choice decides how much of a gradient must leave its node, and therefore most
of the price.

>>> from hierarchies import Axis, Reduction, load, placements
>>> system = load("dgx-h100:4")
>>> print(system.hierarchy)
4 node x 8 gpu
>>> for placement in placements(system.hierarchy, [Axis("data", 8), Axis("model", 4)]):
...     print(placement, "data is reduced over", Reduction(placement, ("data",)).tree)
[[1, 8], [4, 1]] data is reduced over 8 gpu
[[2, 4], [2, 2]] data is reduced over 2 node x 4 gpu
[[4, 2], [1, 4]] data is reduced over 4 node x 2 gpu
"""

from hierarchies.calibration import Calibration as Calibration
from hierarchies.calibration import Crossing as Crossing
from hierarchies.calibration import Fit as Fit
from hierarchies.calibration import MeasuredRange as MeasuredRange
from hierarchies.calibration import MessageCurve as MessageCurve
from hierarchies.calibration import Residual as Residual
from hierarchies.calibration import TableResidual as TableResidual
from hierarchies.calibration import UndeterminedLevels as UndeterminedLevels
from hierarchies.errors import InputError as InputError
from hierarchies.errors import error_context as error_context
from hierarchies.errors import suggest_nearest as suggest_nearest
from hierarchies.faults import Fault as Fault
from hierarchies.faults import find_first_refused as find_first_refused
from hierarchies.faults import parse_fault as parse_fault
from hierarchies.files.calibration import CalibrationPart as CalibrationPart
from hierarchies.files.loading import catalogue as catalogue
from hierarchies.files.loading import file_text as file_text
from hierarchies.files.loading import load as load
from hierarchies.files.loading import load_known as load_known
from hierarchies.files.loading import parse_description as parse_description
from hierarchies.files.loading import spell_machine as spell_machine
from hierarchies.files.machine import Machine as Machine
from hierarchies.files.reading import MOST_EXCEPTIONS as MOST_EXCEPTIONS
from hierarchies.files.reading import read as read
from hierarchies.files.schema import DevicePart as DevicePart
from hierarchies.files.schema import LevelInFull as LevelInFull
from hierarchies.files.schema import LevelPart as LevelPart
from hierarchies.files.schema import MachineException as MachineException
from hierarchies.files.writing import describe_system as describe_system
from hierarchies.hierarchy import Hierarchy as Hierarchy
from hierarchies.hierarchy import Level as Level
from hierarchies.placement import MOST_AXES as MOST_AXES
from hierarchies.placement import Axis as Axis
from hierarchies.placement import Placement as Placement
from hierarchies.placement import check_axes as check_axes
from hierarchies.placement import count_placements as count_placements
from hierarchies.placement import describe_axes as describe_axes
from hierarchies.placement import first_group as first_group
from hierarchies.placement import format_ranges as format_ranges
from hierarchies.placement import placements as placements
from hierarchies.placement import row_major_placement as row_major_placement
from hierarchies.reduction import Devices as Devices
from hierarchies.reduction import Digit as Digit
from hierarchies.reduction import DigitPart as DigitPart
from hierarchies.reduction import Reduction as Reduction
from hierarchies.reduction import Tree as Tree
from hierarchies.system import INSIDE as INSIDE
from hierarchies.system import MEDIA as MEDIA
from hierarchies.system import Domain as Domain
from hierarchies.system import Link as Link
from hierarchies.system import System as System
