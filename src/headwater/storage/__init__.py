"""The only raw files: the corpus folder, and its backup and restore."""
