"""Canonical articles: the run over the links of all categories, and the projection to Redis."""
