"""The papers' evaluations, run again: which systems on which traces, and our numbers beside those that are printed."""
