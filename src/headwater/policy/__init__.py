"""Pure rules: no I/O, no clock of their own. `now` and chance are passed in."""
