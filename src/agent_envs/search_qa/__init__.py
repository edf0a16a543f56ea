"""SearchQA-v0 and WikiSearch-v0: questions for a search engine."""
