"""Extract articles from XML documents of the US government."""
