"""Gymnasium environments for multi-turn language agents that report validity, progress, anchor and goal."""
