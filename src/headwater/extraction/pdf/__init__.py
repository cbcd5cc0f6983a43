"""Convert PDFs to Markdown."""
