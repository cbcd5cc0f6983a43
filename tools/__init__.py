"""Tools for the people who work on Headwater."""
