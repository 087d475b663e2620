"""What makes the documentation: reference pages from the code, and the pages as text for language models."""
