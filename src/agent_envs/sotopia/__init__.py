"""Sotopia-v0: conversations with private goals, scripted or model partners and judges."""
