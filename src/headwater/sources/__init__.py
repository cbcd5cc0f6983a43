"""Sources: the kind API, the registry of kinds, and the operations on sources."""
