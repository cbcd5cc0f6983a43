"""Readers of what the web speaks: bytes or text in, nouns out."""
