"""Generated traces: tables of jobs over time that are like those of real clusters."""
