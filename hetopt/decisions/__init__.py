"""From shares to whole GPUs on servers: rounding, selection, placement, and systems that combine them with a policy."""
