"""The only HTTP client, and the guard that decides which addresses it may connect to."""
