"""The application: what a process opens, the roles it runs, and how it stops."""
