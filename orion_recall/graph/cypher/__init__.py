"""Questions to the graph in a small part of Cypher, compiled to bounded SPARQL."""
