"""The bundle: caps, the token budget, snippets and rendered lines."""
