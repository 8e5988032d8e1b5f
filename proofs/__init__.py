"""Claims of the papers and how each is decided."""

if __name__ != "hetopt.proofs":
    raise ImportError(f"import this package as hetopt.proofs, not as {__name__}")
