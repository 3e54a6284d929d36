"""The hardened test: our own input laws with secret parameters, other weights, memory that holds rubbish."""
