"""Export and import of the graph, and its drawing as HTML."""
