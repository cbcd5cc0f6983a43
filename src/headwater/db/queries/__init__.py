"""Named queries, one file for each noun."""
