"""From a ranking to a bundle: caps, the token budget, snippets, rendered lines."""
