"""Saved searches, and what they and their receivers get: feeds, digests, alarms."""
