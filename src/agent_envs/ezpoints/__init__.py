"""EZPoints-v0: make 12 from two cards, in text or images."""
