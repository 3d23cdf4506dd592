"""How a runtime carries a collective out: algorithms, protocols, and what they put on the links."""
