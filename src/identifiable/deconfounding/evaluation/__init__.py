"""Representations side by side on plates held out."""
