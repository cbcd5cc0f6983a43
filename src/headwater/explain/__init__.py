"""`why URL`: everything Headwater knows about a URL, in plain words."""
