"""How much work a job will be, told from jobs that went before."""
