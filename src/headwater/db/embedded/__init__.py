"""The embedded PostgreSQL: its files, its life cycle and its run folder."""
