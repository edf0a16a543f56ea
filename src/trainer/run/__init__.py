"""A run and its folder: log, checkpoints, evaluation, report."""
