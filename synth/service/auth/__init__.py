"""Who asks, by which key, and how much they may ask for."""
