"""What the console does beside showing: replays in a process of their own, and the file of judged questions."""
