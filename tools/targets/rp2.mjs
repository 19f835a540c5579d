// Runs scripts on RP2040 firmware in the emulator rp2040js, one after the other, each on a new
// chip: what rp2.py starts and talks to. (A process that has run one has compiled the emulator.)
//
// stdin, one JSON object a line: modules (folder with node_modules), firmware, bootrom (paths),
// source (the script), stimuli (as in a script's #EMU lines), limit_us (time that the script may
// take, simulated, and of this processor). With serve instead of the last three it goes on running,
// and its UART 0 is a TCP port of this machine.
// stdout, one JSON array a line:
//   ["out", text]                  what the script printed, one byte a character
//   ["event", us, what, value]     us: simulated time, equal to the script's time.ticks_us()
//   ["end", how, traceback, us]    how: "done", "limit", or what stopped it; us the script took
//   ["port", number]               where it serves
import fs from 'node:fs';
import path from 'node:path';
import net from 'node:net';
import { createRequire } from 'node:module';
import { buses } from './rp2_buses.mjs';

const tell = (...record) => fs.writeSync(1, JSON.stringify(record) + '\n');

const run = async (config) => {
  const { RP2040, GPIOPinState } = createRequire(path.join(config.modules, 'x'))('rp2040js');
  const mcu = new RP2040();
  const { core, clock } = mcu;
  const event = (what, value) => tell('event', clock.nanos / 1e3, what, value);
  const after = (nanos, fn) => clock.createAlarm(fn).schedule(nanos);
  let ended = null; // why to stop

  // ---- What rp2040js does differently from the chip --------------------------------------------

  // SEV is not carried out, only logged.
  mcu.logger = {
    debug() {}, warn() {}, error() {},
    info(component, message) { if (message === 'SEV') core.eventRegistered = true; },
  };

  // With PRIMASK set, a pending interrupt ends WFI, but its handler must not run yet.
  const pending = () =>
    (core.pendingInterrupts & core.enabledInterrupts) !== 0 ||
    core.pendingPendSV || core.pendingSystick;
  const { checkForInterrupts } = core;
  core.checkForInterrupts = function () {
    return this.waiting && this.PM ? pending() : checkForInterrupts.call(this);
  };

  // It raises the transmit interrupt as soon as a handler has cleared it.
  for (const uart of mcu.uart) {
    uart.checkInterrupts = function () {
      mcu.setInterrupt(this.irq, (this.interruptStatus & this.interruptMask) !== 0);
    };
  }

  const attach = buses(mcu, event);

  // A pin that is driven by the chip itself is not seen at its input.
  for (const pin of mcu.gpio) {
    pin.addListener((state) => {
      if (pin.outputEnable) pin.setInputValue(state === GPIOPinState.High);
    });
  }

  // The watchdog fires again and again at the same instant.
  const watchdog = mcu.peripherals[0x40058];
  watchdog.onWatchdogTrigger = () => {
    watchdog.alarm.enable = watchdog.timer.enable = false;
    ended = 'the board has been reset';
  };

  // The boot ROM's flash functions need a part of the flash controller that is missing: a
  // breakpoint takes their place. Busy times are a W25Q16's.
  mcu.loadBootrom(new Uint32Array(new Uint8Array(fs.readFileSync(config.bootrom)).buffer));
  mcu.flash.set(fs.readFileSync(config.firmware));
  let busyNanos = 0; // to be added to the clock
  const romFunctions = {
    IF() {}, EX() {}, FC() {}, CX() {}, // connect, leave and enter XIP, flush the cache
    RE([offset, count]) { // erase
      mcu.flash.fill(0xff, offset, offset + count);
      busyNanos += (45e6 * count) / 4096;
    },
    RP([offset, data, count]) { // program
      for (let i = 0; i < count; i++) mcu.flash[offset + i] &= mcu.readUint8(data + i);
      busyNanos += (0.4e6 * count) / 256;
    },
  };
  // The halfword at 0x14 points to a table: code, address, code, ...
  const romAddress = (code) => {
    const wanted = code.charCodeAt(0) | (code.charCodeAt(1) << 8);
    for (let p = mcu.readUint16(0x14); mcu.readUint16(p); p += 4)
      if (mcu.readUint16(p) === wanted) return mcu.readUint16(p + 2) & ~1;
    throw new Error(`no ROM function ${code}`);
  };
  const setRom16 = (address, value) => {
    const shift = (address & 2) * 8;
    const word = mcu.bootrom[address >> 2];
    mcu.bootrom[address >> 2] = (word & ~(0xffff << shift)) | (value << shift);
  };
  Object.keys(romFunctions).forEach((code, n) => {
    const address = romAddress(code);
    setRom16(address, 0xbe00 | n); // BKPT n
    setRom16(address + 2, 0x4770); // BX LR
  });
  mcu.onBreak = (n) => {
    const fn = Object.values(romFunctions)[n];
    if (fn) fn(core.registers);
    else ended = `breakpoint ${n} at 0x${(core.PC - 2).toString(16)}`;
  };

  // ---- Lines, and TCP ports of this machine that they end at -----------------------------------

  // Bytes on their way: each takes so many ns, and longer while take(byte) returns false.
  const line = (nanos, take) => {
    const bytes = [];
    let busy = false;
    const next = () => {
      if (bytes.length && take(bytes[0])) bytes.shift();
      busy = bytes.length > 0;
      if (busy) after(nanos(), next);
    };
    const send = (data) => {
      bytes.push(...Buffer.from(data));
      if (!busy) after(nanos(), next);
      busy = true;
    };
    return { bytes, send };
  };

  const served = []; // while there is any, simulated time is not faster than this machine's
  const serve = (port, received) => {
    let client = null;
    let sent = [];
    const server = net.createServer((socket) => {
      client?.destroy(); // a line has one end
      client = socket.on('data', received).on('error', () => {});
      socket.on('close', () => { if (client === socket) client = null; });
    });
    server.on('error', (error) => { ended = error.message; });
    server.listen(port, '127.0.0.1', () => {
      if (!port) tell('port', server.address().port);
    });
    const flush = () => {
      if (sent.length) client?.write(Buffer.from(sent));
      sent = [];
    };
    const close = () => new Promise((closed) => {
      server.close(closed);
      client?.destroy();
    });
    served.push({ flush, close });
    return (byte) => sent.push(byte);
  };

  // Unlike the chip's, the emulator's UART sends in no time. away(byte): it has been sent.
  const transmits = (uart, away) => {
    const TXFF = 1 << 5, TXFE = 1 << 7, BUSY = 1 << 3, TX = 1 << 5;
    const { bytes, send } = line(() => 1e10 / uart.baudRate, (byte) => {
      if (bytes.length === 6) { // one is sent, four are left to be
        uart.interruptStatus |= TX;
        uart.checkInterrupts();
      }
      if (bytes.length <= 33) mcu.dma.setDREQ(uart.dreq.tx);
      return away(byte);
    });
    const { get } = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(uart), 'flags');
    Object.defineProperty(uart, 'flags', { get() {
      const n = bytes.length; // of which 32 are in the FIFO
      return (get.call(this) & ~TXFE) | (n > 32 ? TXFF : 0) | (n > 1 ? 0 : TXFE) | (n ? BUSY : 0);
    } });
    uart.onByte = (byte) => {
      send([byte]);
      if (bytes.length > 32) mcu.dma.clearDREQ(uart.dreq.tx);
    };
  };

  // A UART with its line at a port. The emulator's has an interrupt for each byte that comes.
  const join = (uart, name, port) => {
    const RX = 1 << 4;
    const nanos = () => 1e10 / uart.baudRate;
    const interrupt = (bit) => {
      uart.interruptStatus |= bit;
      uart.checkInterrupts();
    };
    const away = serve(port, (data) => { if (uart.enabled) toUart.send(data); });
    const { onByte } = uart;
    transmits(uart, (byte) => {
      onByte?.(byte);
      return away(byte);
    });
    const silence = clock.createAlarm(() => { if (!uart.rxFIFO.empty) interrupt(RX); });
    const toUart = line(nanos, (byte) => {
      if (uart.rxFIFO.full) return false;
      event(`${name}-in`, byte);
      uart.rxFIFO.push(byte);
      silence.schedule(3.2 * nanos());
      if (uart.rxFIFO.itemCount >= 4) interrupt(RX);
      return true;
    });
  };

  // ---- Stimuli and what is watched -------------------------------------------------------------

  let depth = 0; // of its sleep: 0 awake, 1 in WFE or WFI, 2 in machine.lightsleep
  let depthWatched = false;
  const sleep = (now) => {
    if (now !== depth && depthWatched) event('sleep', now);
    depth = now;
  };

  const stimulate = ({ after_us = 0, ...what }) => {
    if (what.watch === 'sleep') depthWatched = true;
    else if ('watch' in what) {
      mcu.gpio[what.watch].addListener((state) =>
        event(`pin${what.watch}`, state === GPIOPinState.High ? 1 : 0));
    } else if ('pin' in what) {
      let { value, count = 1 } = what;
      const drive = () => {
        event(`in${what.pin}`, value);
        mcu.gpio[what.pin].setInputValue(!!value);
        value = 1 - value;
        if (--count > 0) after(what.every_us * 1e3, drive);
      };
      after(after_us * 1e3, drive);
    } else if (what.timed) {
      transmits(mcu.uart[what.uart], (byte) => {
        event(`uart${what.uart}`, byte);
        return true;
      });
    } else if ('spi' in what || 'i2c' in what) {
      if (after_us) after(after_us * 1e3, () => attach(what));
      else attach(what);
    } else if ('port' in what) {
      join(mcu.uart[what.uart], `uart${what.uart}`, what.port);
    } else if ('uart' in what) {
      const uart = mcu.uart[what.uart];
      const bytes = Buffer.from(what.data.repeat(what.repeat ?? 1), 'latin1');
      const byteNanos = 1e10 / (what.baud ?? 115200);
      let next = 0;
      const arrive = () => {
        if (uart.rxFIFO.full || depth === 2) event(`uart${what.uart}-lost`, bytes[next]);
        else uart.feedByte(bytes[next]);
        if (++next < bytes.length) after(byteNanos, arrive);
      };
      after(after_us * 1e3 + byteNanos, arrive);
    } else throw new Error('not a stimulus');
  };
  mcu.uart[1].onByte = (byte) => event('uart1', byte);

  // ---- The session: the REPL on UART 0, in raw-paste mode --------------------------------------

  const uart0 = mcu.uart[0];
  const toDevice = line(() => 20e3, (byte) => {
    if (uart0.rxFIFO.full) return false;
    uart0.feedByte(byte);
    return true;
  });

  // Generators that are resumed with each byte the device sends.
  function* until(mark) {
    let text = '';
    while (!text.endsWith(mark)) text += String.fromCharCode(yield);
    return text.slice(0, -mark.length);
  }

  function* output() {
    let line = '';
    for (let byte; (byte = yield) !== 4;) {
      line += String.fromCharCode(byte);
      if (byte !== 10) continue;
      const command = /^#EMU (.*)\r\n$/.exec(line);
      if (!command) tell('out', line);
      else {
        try {
          stimulate(JSON.parse(command[1]));
        } catch (error) {
          ended = `${error.message}: ${command[0]}`;
        }
      }
      line = '';
    }
    tell('out', line);
  }

  let startedAt = null; // nanoseconds
  let traceback = '';
  function* session() {
    yield* until('>>> ');
    toDevice.send('\x01');
    yield* until('exit\r\n>');
    toDevice.send('\x05A\x01');
    yield* until('R\x01');
    const window = (yield) | ((yield) << 8);
    const source = Buffer.from(config.source + '\x04');
    let sent = 0;
    for (let byte = 1; byte === 1; byte = yield) { // 1: room for another window; 4: that was all
      toDevice.send(source.subarray(sent, sent + window));
      sent += window;
    }
    if (sent < source.length) { // a syntax error
      toDevice.bytes.length = 0;
      toDevice.send('\x04');
    }
    startedAt = clock.nanos;
    config.stimuli.forEach(stimulate);
    yield* output();
    traceback = yield* until('\x04');
    ended = 'done';
  }

  // ---- Run -------------------------------------------------------------------------------------

  let nanosPerCycle = 1e9 / mcu.clkSys;
  mcu.addClockListener((hz) => { nanosPerCycle = 1e9 / hz; });
  core.VTOR = 0;
  core.PC = 0x10000000; // the second-stage boot loader, as if the ROM had copied it

  // At most so many, up to the time `until` in ns.
  const steps = (count, until = Infinity) => {
    for (; count && !ended && clock.nanosCounter < until; count--) {
      if (!core.waiting) {
        if (depth) sleep(0);
        const nanos = core.executeInstruction() * nanosPerCycle + busyNanos;
        busyNanos = 0;
        const next = clock.nextAlarm;
        if (next && next.nanos <= clock.nanosCounter + nanos) clock.tick(nanos);
        else clock.nanosCounter += nanos;
      } else if (pending()) {
        core.waiting = false;
        core.interruptsUpdated = true;
      } else {
        const next = Math.min(clock.nextAlarm?.nanos ?? Infinity, until);
        if (next === Infinity) ended = 'asleep, and nothing left to wake it';
        else {
          sleep(core.PM ? 2 : 1); // of the two only lightsleep has interrupts off
          clock.tick(next - clock.nanos);
        }
      }
    }
  };

  let offset; // this machine's time less simulated time
  const stepsInTime = () => {
    const now = performance.now() * 1e6;
    offset ??= now - clock.nanos;
    steps(100000, now - offset);
    offset = Math.max(offset, now - clock.nanos); // it is not made up for what is late
    for (const { flush } of served) flush();
    const idle = core.waiting && !toDevice.bytes.length;
    return new Promise((go) => (idle ? setTimeout(go, 1) : setImmediate(go)));
  };

  if (config.serve) uart0.onByte = serve(0, toDevice.send);
  else {
    const repl = session();
    repl.next();
    uart0.onByte = (byte) => repl.next(byte);
  }
  const begun = process.cpuUsage();
  const inTime = () => {
    if (clock.nanos > (startedAt ?? 10e9) + config.limit_us * 1e3) ended ??= 'limit';
    return !ended;
  };
  while (inTime()) {
    if (served.length) await stepsInTime();
    else for (let n = 0; n < 4096 && !served.length && inTime(); n++) steps(256);
    if (process.cpuUsage(begun).user > config.limit_us) ended ??= 'limit';
  }
  for (const { close } of served) await close();
  tell('end', ended, traceback, startedAt === null ? 0 : (clock.nanos - startedAt) / 1e3);
};

let input = '';
for (const buffer = Buffer.alloc(65536);;) {
  const count = fs.readSync(0, buffer);
  if (!count) break;
  const lines = (input + buffer.latin1Slice(0, count)).split('\n');
  input = lines.pop();
  for (const config of lines.map((line) => JSON.parse(line))) {
    await run(config);
  }
}
