"""AlfWorld-v0: household tasks as text."""
