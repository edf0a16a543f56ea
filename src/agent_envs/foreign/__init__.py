"""Worlds of other packages, lifted by `Signals`: each module has `make(name, **options)`."""
