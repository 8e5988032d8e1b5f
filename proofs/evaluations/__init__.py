"""The papers' evaluations, run anew: which systems on which traces, and our numbers beside those that are printed."""
