"""Models: the policy, its chat template, its weights and log-probabilities."""
