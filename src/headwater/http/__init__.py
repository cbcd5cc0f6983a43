"""The only HTTP client, and the guard that decides which addresses the client may connect to."""
