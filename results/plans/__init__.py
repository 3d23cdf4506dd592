"""Plans of whole steps: what it gains to choose recipe, placement and programs together."""
