"""THERE: schedules carried out by processes of this machine, from the very files handed out."""
