"""A subset of Cypher for the graph, compiled to bounded SPARQL."""
