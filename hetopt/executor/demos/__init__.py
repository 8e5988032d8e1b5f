"""Small training jobs to try a cluster with: ``python -m hetopt.executor.demos.numpy_mlp``."""
