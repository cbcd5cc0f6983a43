"""Hand-off turns the items of a run into jobs that wait for their pages."""
