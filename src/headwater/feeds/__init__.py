"""Readers of feeds, sitemaps, subscription lists and links: bytes in, values out. They run in the sandbox."""
