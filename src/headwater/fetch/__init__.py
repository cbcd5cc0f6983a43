"""One lease becomes bytes, a raw file, an article and a document, in one transaction."""
