"""More than one process: data parallel training, sharded weights, workers, Ray actors."""
