"""Data that ships with the wheel: worlds made by our own generators and the pocket policy."""
