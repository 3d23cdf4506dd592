"""How near the best answers come to what no schedule can beat."""
