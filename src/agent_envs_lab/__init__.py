"""Measuring: audits of environments, and of what their signals are worth."""
