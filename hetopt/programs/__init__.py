"""Programs: the arrays, Pyomo blocks and formulas of components, compiled to linear programs, and files of them."""
