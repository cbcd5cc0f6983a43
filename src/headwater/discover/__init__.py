"""Run a source: items saved and URLs submitted in one transaction; polls and slots."""
