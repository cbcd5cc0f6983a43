"""The work of Headwater, minute by minute, and the events that explain it."""
