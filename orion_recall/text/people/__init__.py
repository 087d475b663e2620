"""What a text says of people: kin, roles, titles, and who introduces whom."""
