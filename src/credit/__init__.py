"""Turn-level credit assignment and reward shaping on plain arrays."""
