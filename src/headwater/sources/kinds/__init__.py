"""The kinds of source that Headwater ships."""
