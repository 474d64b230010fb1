"""Tests of the room `deconfounding`, file by file."""
