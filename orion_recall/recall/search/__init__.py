"""The search step: requests, parallel search of all sources, fallback, time search, follow-up search."""
