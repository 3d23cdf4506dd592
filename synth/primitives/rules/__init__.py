"""Rules of sharding: for each primitive the indices that it iterates over, and partial operands."""
