"""What a screen is corrected by, to compare with: eleven corrections, fitted by folds over blocks."""
