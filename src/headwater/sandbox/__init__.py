"""The only child processes that parse bytes from outside."""
