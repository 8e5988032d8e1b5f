"""How long a job will train, told from what finished before."""
