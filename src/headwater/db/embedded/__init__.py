"""The embedded PostgreSQL: its files and its life cycle."""
