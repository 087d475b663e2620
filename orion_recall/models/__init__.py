"""Models that run in this process: loaded once, warm, and never on the event loop."""
