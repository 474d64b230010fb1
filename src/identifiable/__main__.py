"""`python -m identifiable`."""

import sys

from identifiable.cli import main

sys.exit(main())
