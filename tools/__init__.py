"""Commands that make the files of `env_assets`; not in the wheel."""
