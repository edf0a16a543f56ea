"""EZPoints-v0: two cards that make 12, in text and pictures."""
