"""Makes the games of `env_assets/alfworld`."""
