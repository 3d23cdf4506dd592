"""How far steps of each framework are from their predictions, and by what their compute is off."""
