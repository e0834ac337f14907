"""Stands for the code under test."""
