"""A compact GRPO/PPO reference trainer for the environments and the credit methods."""
