"""A fuzzer of the readers of bytes from outside: `make fuzz ARGS="--target feed --seconds 300"`."""
