"""Jobs with pipeline stages: job graph, iteration time, mapping to GPUs."""
