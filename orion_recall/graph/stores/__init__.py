"""Where the graph lives: Oxigraph in this process, or a SPARQL server."""
