"""Documents: search, revisions, days, derivation and verification."""
