"""The change feed, and webhooks that receive the same changes."""
