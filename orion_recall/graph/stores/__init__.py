"""Graph stores: Oxigraph in this process, or a SPARQL server."""
