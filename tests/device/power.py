# Goes ahead of each script of the variants with power mode: switches it on once the script has
# imported the package. Where there is no lightsleep, one that stands for it sleeps until its time
# is over or the bell is rung, and ends early at random.


def _with_power():
    import builtins
    import sys
    import time

    import machine

    def imported(name, *args):
        if name.split(".")[0] == "asyncio_alt":
            builtins.__import__ = imports
            power_on(machine)
        return imports(name, *args)

    def power_on(machine):
        stand_in = not hasattr(machine, "lightsleep")
        if stand_in:
            sys.modules["machine"] = machine = Machine(machine)
        from asyncio_alt import core, power_mode

        Machine.rung = core.bell.rung
        sleep = power_mode(True)
        if stand_in:
            # It does not sleep over a ring, so it may sleep for longer than a slice.
            sleep._sleep = machine.lightsleep

    class Machine:
        some = 1

        def __init__(self, real):
            for name in dir(real):
                if name[0] != "_":
                    setattr(self, name, getattr(real, name))

        def lightsleep(self, ms):
            self.some = self.some * 75 % 65537
            end = time.ticks_add(time.ticks_ms(), ms if self.some & 15 else ms // 2)
            while time.ticks_diff(end, time.ticks_ms()) > 0 and not Machine.rung():
                time.sleep_ms(1)

    imports = __import__
    builtins.__import__ = imported


_with_power()
