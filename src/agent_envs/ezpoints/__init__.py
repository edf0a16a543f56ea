"""EZPoints-v0 and Points-v0: make 12 of two cards or 24 of four, in text or images."""
