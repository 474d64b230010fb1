"""What is plate, what is biology, and does it hold on plates never seen?"""
