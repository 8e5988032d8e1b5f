"""Many simulations: every system on every trace with every seed, stored so that they can be resumed."""
