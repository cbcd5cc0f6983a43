"""The change feed, and the webhooks that deliver it."""
