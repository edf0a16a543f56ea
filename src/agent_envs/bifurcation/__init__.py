"""Bifurcation-v1: walks in which few turns decide, with the exact value of every turn."""
