"""How far published steps in FP8 are from their predictions, with nothing fitted."""
