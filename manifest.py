# Freezes asyncio_alt into firmware. In a board's manifest:
#
#   include("/path/to/asyncio_alt/manifest.py")
#
# Options, as in include("...", as_asyncio=True):
#   as_asyncio  take the place of asyncio, so that every library uses it; stock must not be frozen
#   task_py     for a build without the C module `_asyncio` (default: leave task.py out)

import os

# Without a version: it would be added to every module, and cost heap.
metadata(description="asyncio that answers interrupts and I/O first", license="MIT")
options.defaults(as_asyncio=False, task_py=False)

_files = sorted(
    os.path.relpath(os.path.join(folder, name), "asyncio_alt")
    for folder, _, names in os.walk("asyncio_alt")
    for name in names
    if name.endswith(".py") and name != "shm.py" and not folder.startswith("asyncio_alt/pc")
    if options.task_py or name != "task.py"
)

if options.as_asyncio:
    # A package is frozen under its folder's name, so this folder has a link of that name.
    package("asyncio", _files, base_path="ports/as_asyncio", opt=3)
    module("uasyncio.py", base_path="ports/as_asyncio", opt=3)
else:
    package("asyncio_alt", _files, opt=3)
