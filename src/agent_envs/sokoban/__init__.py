"""Sokoban-v0 and VisualSokoban-v0: rules, rooms, levels from files, solver and drawings."""
