"""Credit methods: a file for each paper."""
