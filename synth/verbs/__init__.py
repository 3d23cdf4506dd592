"""The verbs, family by family: what may be asked, one pydantic model each, and what answers it."""
