"""Headwater turns public sources into a clean, dated, deduplicated, searchable corpus."""

from importlib.metadata import version

__version__ = version("headwater")
