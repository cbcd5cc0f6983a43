"""The files that `headwater source new-kind` writes."""
