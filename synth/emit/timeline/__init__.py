"""When which device and link is at work: as a trace for viewers, and as a drawing."""
