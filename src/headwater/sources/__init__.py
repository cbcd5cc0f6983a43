"""What a kind of source is, and the kinds that come with Headwater."""
