"""What every component is about, and a screen without the technical ones."""
