"""The commands that measure."""
