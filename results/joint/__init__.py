"""Every model of the zoo that is planned, on four machines: what is found beside known recipes."""
