"""What starts and kills processes: this machine itself, or Slurm; a third one fits the same methods."""
