"""Tracing Python functions of tensors to the text form."""
