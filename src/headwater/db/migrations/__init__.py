"""Numbered migrations, each with its way back."""
