"""The gate: every request waits for its host and obeys its robots.txt before it is sent."""
