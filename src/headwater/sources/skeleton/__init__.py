"""What `headwater source new-kind` writes."""
