"""The doors' way to what the database says of its full disk."""

from headwater.db.pool import said_of_full_disk

__all__ = ["said_of_full_disk"]
