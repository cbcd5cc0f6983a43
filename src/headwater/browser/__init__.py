"""The one Chromium of a process, and the proxy that is its only way out."""
