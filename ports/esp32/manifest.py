# Freezes what the port freezes, and asyncio_alt beside stock asyncio. Options: see ../manifest.py
include("../manifest.py", as_asyncio=options.as_asyncio, stock=options.stock)
freeze("$(PORT_DIR)/modules")
require("bundle-networking")
for _library in (
    "aioespnow",
    "dht",
    "ds18x20",
    "neopixel",
    "onewire",
    "umqtt.robust",
    "umqtt.simple",
    "upysh",
):
    require(_library)
