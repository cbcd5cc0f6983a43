"""A small web of our own, and the whole flow run on it."""
