"""The application: it opens the parts of a process, runs its roles and stops them."""
