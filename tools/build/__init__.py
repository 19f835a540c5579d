"""Builds: fetched sources and packages, firmware, .mpy files, an index for mip, a release."""
