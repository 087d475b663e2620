"""How well successions are recognised, measured on memories with a list of what replaces what."""
