"""Bifurcation-v0: walks in which one turn decides, with the exact value of every turn."""
