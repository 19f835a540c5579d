# Freezes what the port freezes, and asyncio_alt beside stock asyncio. Options: see ../manifest.py
include("../manifest.py", as_asyncio=options.as_asyncio, stock=options.stock)
require("dht")
require("onewire")
