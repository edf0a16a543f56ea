"""Measuring: how right credit is, and how well environments and methods do."""
