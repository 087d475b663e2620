"""Workers that run, and how they do: `orion-recall up`, `worker`, `status` and `dead`. One module per command."""
