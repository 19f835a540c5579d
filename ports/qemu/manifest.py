# Freezes asyncio_alt beside stock asyncio. Options: see ../manifest.py
include(
    "../manifest.py",
    as_asyncio=options.as_asyncio,
    stock=options.stock,
    task_py=options.task_py,
)
