# Freezes what the port freezes, and asyncio_alt beside stock asyncio. Options: see ../manifest.py
include(
    "../manifest.py",
    as_asyncio=options.as_asyncio,
    stock=options.stock,
    task_py=options.task_py,
)

for _library in ("mip-cmdline", "ssl"):
    try:
        require(_library)
    except ValueError:
        pass  # a source without micropython-lib
