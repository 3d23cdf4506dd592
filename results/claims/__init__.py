"""What the paper claims, put to this simulator."""
