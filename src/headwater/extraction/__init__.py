"""Bytes to articles, by versioned normalizers. They run in the sandbox."""
