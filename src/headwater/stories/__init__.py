"""Documents about one event: copies of a text, and reports of several sources."""
