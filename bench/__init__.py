"""Measurements with their targets. This is no part of the package."""
