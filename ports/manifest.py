# What every port's manifest includes: stock asyncio and asyncio_alt, one or both.
#
#   as_asyncio  asyncio_alt under the name asyncio, in the place of stock
#   stock       stock alone
#   task_py     tasks in Python, for a build without the C module `_asyncio`

options.defaults(as_asyncio=False, stock=False, task_py=False)

if not options.as_asyncio:
    include("$(MPY_DIR)/extmod/asyncio")
    if options.task_py:
        package("asyncio", ["task.py"], base_path="$(MPY_DIR)/extmod", opt=3)

if not options.stock:
    include("../manifest.py", as_asyncio=options.as_asyncio, task_py=options.task_py)
