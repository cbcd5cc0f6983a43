"""Extract articles from bytes with versioned normalizers, which run in the sandbox."""
