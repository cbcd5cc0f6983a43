"""The day: what was observed of items becomes an index of NEW and LATEST."""
