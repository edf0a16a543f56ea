"""More than one process: data parallel training, sharded weights, Ray actors."""
