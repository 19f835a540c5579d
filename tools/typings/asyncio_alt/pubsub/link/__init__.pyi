from .link import Link as Link
