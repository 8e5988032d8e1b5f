"""Properties of policies: which hold, on how many instances, and the smallest counterexamples."""
