"""The nouns: frozen dataclasses, states, one closed list of reasons. Only the standard library is imported here."""
