"""Which question it was, and which code answered it: the key that an answer is kept under."""
