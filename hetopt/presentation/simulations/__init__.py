"""The page about a folder of simulations."""
