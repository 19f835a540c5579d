"""Builds: what is fetched for that, firmware, .mpy files, an index for mip, a release."""
