"""From components to a linear program: formulations, compiling, rows, files."""
