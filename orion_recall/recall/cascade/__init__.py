"""The cascade: further layers of memory, searched while the confidence is below a threshold."""
