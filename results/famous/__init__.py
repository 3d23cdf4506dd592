"""How far famous training runs are from their predictions, with nothing fitted."""
