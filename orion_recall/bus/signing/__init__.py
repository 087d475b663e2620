"""Signed messages: who sent one, by an HMAC over its raw bytes, and what that caller may do."""
