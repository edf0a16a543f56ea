"""Makes the pocket policies of `env_assets`."""
