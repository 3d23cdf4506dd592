"""How fast collsynth is."""
