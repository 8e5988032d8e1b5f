"""A-SRPT: where the stages of pipeline-parallel jobs go, and in which order jobs of predicted length run [ASRPT]."""
