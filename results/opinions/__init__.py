"""A second opinion on the price of schedules: the same messages in a simulator that is not ours."""
