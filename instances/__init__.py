"""Named instances with provenance."""

if __name__ != "hetopt.instances":
    raise ImportError(f"import this package as hetopt.instances, not as {__name__}")
