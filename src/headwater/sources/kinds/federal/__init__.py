"""Kinds for publications of the US federal government. Each is a short class to copy from (docs/federal.md)."""
