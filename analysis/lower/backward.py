"""Rules for the operators of the backward pass, which `mode=train` records."""
