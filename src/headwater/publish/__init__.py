"""Where documents go next: projections of what PostgreSQL holds, which it can make again at any time."""
