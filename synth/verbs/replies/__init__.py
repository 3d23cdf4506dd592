"""What every verb answers, as pydantic models: descriptions and judges, no makers, of its JSON.

Bodies are made by ``synth.verbs.answers`` without these models; tests hold every body to
them. ``docs/json.md`` says in words what the keys mean, ``docs/replies.schema.json`` is the schema.
"""

from synth.verbs.replies.table import REPLIES as REPLIES
from synth.verbs.replies.table import judge as judge
from synth.verbs.replies.table import schema as schema
