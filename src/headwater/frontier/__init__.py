"""The one queue of all URLs: submit, claim, finish, retry, rescue."""
