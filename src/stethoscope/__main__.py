"""`python -m stethoscope`."""

import sys

from stethoscope.cli import main

sys.exit(main())
