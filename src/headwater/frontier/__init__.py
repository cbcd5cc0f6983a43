"""The one queue for all URLs: submit, claim, finish, rescue."""
