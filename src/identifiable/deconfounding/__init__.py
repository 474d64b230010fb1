"""What is plate, what is biology, and does it hold on plates never seen?"""

from __future__ import annotations

from identifiable.deconfounding.design import Design, Labels

__all__ = ["Design", "Labels"]
