# Heap that the package takes once imported, with the modules for tasks that sleep.

import gc


def measure(package):
    gc.collect()
    before = gc.mem_alloc()
    aio = __import__(package)
    aio.run, aio.create_task, aio.sleep_ms
    gc.collect()
    return {"bytes": gc.mem_alloc() - before}
