"""The console: pages in a browser that show what a running system recalls, and why."""
