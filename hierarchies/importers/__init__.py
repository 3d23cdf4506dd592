"""Other people's descriptions of machines, read into drafts of a ``System``."""

from hierarchies.importers.draft import Blank as Blank
from hierarchies.importers.draft import Draft as Draft
from hierarchies.importers.draft import DraftLevel as DraftLevel
from hierarchies.importers.draft import Lack as Lack
from hierarchies.importers.draft import Stated as Stated
from hierarchies.importers.kinds import KINDS as KINDS
from hierarchies.importers.kinds import Kind as Kind
from hierarchies.importers.kinds import import_texts as import_texts
from hierarchies.importers.options import Options as Options
from hierarchies.importers.texts import texts as texts
from hierarchies.importers.writing import toml as toml
from hierarchies.importers.writing import written as written
