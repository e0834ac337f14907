"""Stands for an adapter; nothing runs it."""
