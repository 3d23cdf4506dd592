"""What we found: one folder a question, with its commands, its data and its part of the page."""
