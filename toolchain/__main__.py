"""`python -m toolchain`, the same as `tilewright`."""

import sys

from toolchain.start import main

sys.exit(main())
