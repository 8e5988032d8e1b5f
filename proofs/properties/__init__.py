"""Properties that any policy can be put to: which hold, on how many instances, and the smallest counterexample."""
