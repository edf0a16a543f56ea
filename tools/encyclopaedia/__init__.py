"""Makes the encyclopaedia of `env_assets/search_qa`."""
