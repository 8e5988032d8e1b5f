"""Formulations and policies: one paper or baseline per file, and the parts that they share."""

if __name__ != "hetopt.models":
    raise ImportError(f"import this package as hetopt.models, not as {__name__}")
