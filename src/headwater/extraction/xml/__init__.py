"""XML documents of the US government to articles."""
