"""Hand-off: the items of a run become jobs, which wait for the pages of the items."""
