"""The generated files of contracts/: JSON Schemas and the AsyncAPI document. `files.py` writes them."""
