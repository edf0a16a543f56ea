"""The true advantage of every turn, measured by going on from copies of its states."""
