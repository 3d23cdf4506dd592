"""WHERE: machines, the placement of parallelism axes on them, and what is to be reduced."""

from hierarchies.calibration import Calibration as Calibration
from hierarchies.calibration import Crossing as Crossing
from hierarchies.calibration import Fit as Fit
from hierarchies.calibration import Residual as Residual
from hierarchies.description import catalogue as catalogue
from hierarchies.description import load as load
from hierarchies.description import read as read
from hierarchies.errors import InputError as InputError
from hierarchies.errors import nearest as nearest
from hierarchies.faults import Fault as Fault
from hierarchies.faults import fault_of as fault_of
from hierarchies.hierarchy import Hierarchy as Hierarchy
from hierarchies.hierarchy import Level as Level
from hierarchies.placement import Axis as Axis
from hierarchies.placement import Placement as Placement
from hierarchies.placement import check_axes as check_axes
from hierarchies.placement import count_placements as count_placements
from hierarchies.placement import placements as placements
from hierarchies.reduction import Devices as Devices
from hierarchies.reduction import Digit as Digit
from hierarchies.reduction import Part as Part
from hierarchies.reduction import Reduction as Reduction
from hierarchies.reduction import Tree as Tree
from hierarchies.system import Domain as Domain
from hierarchies.system import Link as Link
from hierarchies.system import System as System
