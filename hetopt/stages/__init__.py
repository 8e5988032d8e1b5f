"""Jobs in pipeline stages: job graph, iteration time, mapping to GPUs."""
