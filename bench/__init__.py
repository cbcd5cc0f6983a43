"""Measurements, beside their targets. Not part of the package."""
