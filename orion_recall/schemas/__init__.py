"""The generated files of contracts/: JSON Schemas, the AsyncAPI document, examples. `files.py` writes them."""
