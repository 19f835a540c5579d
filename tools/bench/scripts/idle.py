# How often the loop polls while nothing happens and one task waits for a flag.

import select
import sys

polls = 0  # calls of a poller's ipoll()
looks = 0  # calls of the flag's ioctl(): a poll may repeat itself, without returning


class Poller:
    def __init__(self):
        self.poller = _poll()

    def __getattr__(self, name):
        return getattr(self.poller, name)

    def ipoll(self, *args):
        global polls
        polls += 1
        return self.poller.ipoll(*args)


class Select:
    # The builtin module cannot be changed, but imports look into sys.modules first.
    pass


_poll = select.poll
for name in dir(select):
    if not name.startswith("_"):
        setattr(Select, name, getattr(select, name))
Select.poll = Poller
sys.modules["select"] = Select


def measure(package, seconds):
    global polls, looks
    aio = __import__(package)

    class Flag(aio.ThreadSafeFlag):
        def ioctl(self, req, arg):
            global looks
            looks += 1
            return super().ioctl(req, arg)

    async def main():
        global polls, looks
        task = aio.create_task(Flag().wait())
        await aio.sleep_ms(0)  # until it waits
        polls = looks = 0
        await aio.sleep(seconds)
        count = max(polls, looks)
        task.cancel()
        return count

    return {"polls": aio.run(main())}
