"""The vocabulary: errors, reasons, nouns and pure rules. No I/O; `now` and chance are passed in."""
