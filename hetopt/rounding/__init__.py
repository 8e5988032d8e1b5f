"""From shares to whole GPUs, and what is owed."""
