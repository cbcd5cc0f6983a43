"""Access to the API: tokens with scopes."""
