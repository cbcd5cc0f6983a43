"""The one queue for all URLs: submit, claim, complete, retry, rescue."""
