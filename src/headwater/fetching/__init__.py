"""Fetching turns one claimed URL into bytes, a raw file, an article and a document."""
