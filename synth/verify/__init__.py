"""The judges of a program, which share no rules: z3 for all sizes and for one, and numpy."""
