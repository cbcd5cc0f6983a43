"""The only place where parts meet: what is opened, which roles run, how they stop."""
