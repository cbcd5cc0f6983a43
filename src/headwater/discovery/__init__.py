"""Discovery runs a source and saves its items and URLs in one transaction."""
