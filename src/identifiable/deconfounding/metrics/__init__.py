"""Metrics of a space: do replicates find each other, do batches mix?"""
