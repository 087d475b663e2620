"""Logged queries asked again: on the memories of then or of now, under the logged profile and another one."""
