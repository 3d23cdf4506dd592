"""What programs mean: the rules, the states they reach, and the schedules they come to."""
