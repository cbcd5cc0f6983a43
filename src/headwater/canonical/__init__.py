"""URLs of categories become canonical articles, through the frontier and once each."""
