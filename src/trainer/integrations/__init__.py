"""Adapters for trainers of other projects; each module is imported only when it is used."""
