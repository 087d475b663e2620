"""What a question asks for: its class, names, chains and further words."""
