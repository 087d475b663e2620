"""Walks over the graph: neighbourhood, activation, paths, components."""
