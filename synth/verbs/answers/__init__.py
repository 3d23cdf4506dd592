"""What every verb answers, as pydantic models: made from what was found, written, read back.

``docs/json.md`` says in words what the keys mean, ``docs/replies.schema.json`` is their schema.
"""

from synth.verbs.answers.table import REPLIES as REPLIES
from synth.verbs.answers.table import judge as judge
from synth.verbs.answers.table import schema as schema
