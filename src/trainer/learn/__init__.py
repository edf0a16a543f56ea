"""Learning: token batches, the policy update, and supervised imitation."""
