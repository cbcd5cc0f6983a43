"""PDFs to Markdown."""
