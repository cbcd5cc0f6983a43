"""HTML pages to articles."""
