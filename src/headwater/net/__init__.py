"""The only sockets: one HTTP client and the guard over what it may connect to."""
