"""From shares to whole GPUs on servers: rounding, selection, placement, and the steps of a system."""
