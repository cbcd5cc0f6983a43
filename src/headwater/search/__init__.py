"""Search: find documents by words, phrases and filters."""
