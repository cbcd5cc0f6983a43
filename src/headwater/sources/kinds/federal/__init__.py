"""Kinds for what the federal government publishes; each is a short class to copy from (docs/federal.md)."""
