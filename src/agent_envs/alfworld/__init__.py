"""AlfWorld-v0: household tasks as text, with a native engine and a generator of games."""
