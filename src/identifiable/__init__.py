"""identifiable: if I trained this model again, would I get the same representation?"""
