"""The only way out: every request waits for its host's turn and obeys its robots.txt before net/ sends it."""
