"""Extract articles from HTML pages."""
