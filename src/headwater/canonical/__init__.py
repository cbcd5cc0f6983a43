"""Canonical articles: the run over all category links, and the Redis projection."""
