"""The doors' way to the skeleton of a new kind."""

from headwater.sources.new_kind import entry_point, write_skeleton

__all__ = ["entry_point", "write_skeleton"]
