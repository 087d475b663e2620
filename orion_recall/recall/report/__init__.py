"""What a recall says of itself: reply, decision, explanation."""
