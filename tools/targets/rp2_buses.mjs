// The RP2040's SPI, I2C and DMA where rp2040js 1.4.1 differs from the chip, and devices at the
// ends of the buses. rp2.mjs calls buses() for each new chip. Numbers in brackets are sections of
// the RP2040 datasheet.

const IRQ_QUIET = 1 << 21;
const PERMANENT = 63;
const hex = (bytes) => Buffer.from(bytes).toString('hex');

// DMA: a transfer takes no time, and does not look at its request when it is made.
const repairDma = (mcu) => {
  const { dma } = mcu;
  for (const channel of dma.channels) {
    const alarm = channel.transferAlarm;
    const schedule = alarm.schedule.bind(alarm);
    alarm.schedule = (nanos) => schedule(Math.max(nanos, 1e9 / mcu.clkSys)); // one a clock [2.5]
    const transfer = alarm.callback;
    alarm.callback = () => {
      const request = channel.treq;
      // One that was taken away meanwhile comes again by setDREQ().
      if (request >= dma.dreq.length || dma.dreq[request]) transfer();
    };
    // "Aborting a channel which has transfers in flight ... will trigger a completion interrupt"
    // [erratum RP2040-E13].
    const { abort } = channel;
    channel.abort = function () {
      const cut = this.active && !(this.ctrl & IRQ_QUIET);
      abort.call(this);
      if (cut) {
        dma.intRaw |= 1 << this.index;
        dma.checkInterrupts();
      }
    };
  }
  // Pacing timers ask X times in Y clocks [2.5.3.2]; there it is Y in X.
  dma.getTimer = function (request) {
    const value = request === PERMANENT ? 0x10001 : this[`timer${request - 59}`] ?? 0;
    const x = value >>> 16;
    const y = value & 0xffff;
    return x && y ? ((y / x) * 1e6) / mcu.clkSys : 0;
  };
};

// SPI: a frame takes no time; there is no loop-back; the lines end nowhere.
const spiBus = (mcu, spi, name, event) => {
  const { clock } = mcu;
  const devices = [];
  let answer = 0;
  const sent = clock.createAlarm(() => spi.completeTransmit(answer));
  spi.onTransmit = (word) => {
    const selected = devices.filter((device) => device.selected());
    answer = 0;
    if (devices.length && !selected.length) event(`${name}-stray`, word);
    for (const device of selected) answer |= device.exchange(word);
    if (spi.control1 & 1) answer = word; // LBM: "output ... connected to input" [4.4.4]
    sent.schedule((spi.dataBits * 1e9) / spi.clockFrequency);
  };
  // Answers with the complement of the word before, 0xff first. With each rise of its chip-select
  // line it tells of [data, levels of its D/C line, ns from select to the first clock, ns from the
  // last clock to the end; less than 0 if the last word was cut].
  return ({ cs, dc }) => {
    const low = (pin) => pin.outputEnable && !pin.outputValue;
    const select = mcu.gpio[cs];
    let data = [], levels = '', last = 0, since = null, first = 0, over = 0;
    const exchange = (word) => {
      if (!data.length) first = clock.nanos;
      data.push(word);
      if (dc !== undefined) levels += low(mcu.gpio[dc]) ? 0 : 1;
      over = clock.nanos + (spi.dataBits * 1e9) / spi.clockFrequency;
      const reply = ~last & 0xff;
      last = word;
      return reply;
    };
    select.addListener(() => {
      if (low(select) === (since !== null)) return;
      if (since === null) {
        since = clock.nanos;
        data = [];
        levels = '';
        last = 0;
      } else {
        const ends = data.length ? [first - since, clock.nanos - over] : [];
        event(`${name}-${cs}`, [hex(data), levels, ...ends.map(Math.round)]);
        since = null;
      }
    });
    devices.push({ selected: () => since !== null, exchange });
  };
};

// I2C's states, registers and bits.
const CONNECTED = 3, STOP = 4;
const ENABLE = 0x6c, DATA_CMD = 0x10, ABRT_SOURCE = 0x80, DMA_CR = 0x88, TDLR = 0x8c, RDLR = 0x90;
const TX_EMPTY = 1 << 4, TX_ABRT = 1 << 6, TX_EMPTY_CTRL = 1 << 8, ABORT = 2;

const i2cBus = (mcu, i2c, n, event) => {
  const { clock } = mcu;
  const name = `i2c${n}`;
  const devices = {}; // by address
  let device = null; // that has answered its address
  let epoch = 0; // grows with each reset
  let held = 0; // how many hold a line low
  let resumes = []; // to be called when no line is held any more
  let data = []; // since the last start
  let head = null; // [address, 1 to read]

  // ---- The wire: bits take their time, and wait while somebody holds a line --------------------

  const later = (bits, fn) => {
    const of = epoch;
    const nanos = (bits * (i2c.sclLowPeriod + i2c.sclHighPeriod) * 1e9) / mcu.clkSys;
    const go = () => {
      if (of !== epoch) return;
      if (held) resumes.push(go);
      else fn();
    };
    clock.createAlarm(go).schedule(nanos);
  };
  const release = () => {
    if (--held) return;
    const waiting = resumes;
    resumes = [];
    for (const go of waiting) go();
  };
  const hold = (us) => {
    held++;
    if (us) clock.createAlarm(release).schedule(us * 1e3);
  };
  const told = (how) => {
    if (head) event(name, [...head, hex(data), how]);
    head = null;
    data = [];
  };

  i2c.onStart = (restart) => {
    if (restart) told('restart');
    later(1, () => i2c.completeStart());
  };
  i2c.onConnect = (address, mode) => later(9, () => {
    device = devices[address] ?? null;
    head = [address, mode ? 1 : 0];
    if (device) device.begin(mode);
    else told('nobody');
    i2c.completeConnect(!!device);
  });
  i2c.onWriteByte = (byte) => later(9, () => {
    data.push(byte);
    const how = device.write(byte, data.length);
    if (how === 'lost') {
      told('lost');
      device = null;
      i2c.arbitrationLost();
    } else {
      if (how === 'nack') told('nack');
      // Held lines end the byte later.
      later(0, () => i2c.completeWrite(how !== 'nack'));
    }
  });
  i2c.onReadByte = () => later(9, () => {
    const byte = device.read(data.length + 1);
    data.push(byte);
    later(0, () => i2c.completeRead(byte));
  });
  i2c.onStop = () => later(1, () => {
    told('stop');
    event(`${name}-stop`, 0);
    device = null;
    i2c.completeStop();
  });

  // ---- The controller ---------------------------------------------------------------------------

  let control = 0, txLevel = 0, rxLevel = 0;
  const TX = 32 + 2 * n, RX = TX + 1; // [2.5.3.1]
  const requests = () => {
    const set = (request, on) => (on ? mcu.dma.setDREQ(request) : mcu.dma.clearDREQ(request));
    set(TX, control & 2 && i2c.txFIFO.itemCount <= txLevel);
    set(RX, control & 1 && i2c.rxFIFO.itemCount > rxLevel);
  };
  for (const fifo of [i2c.txFIFO, i2c.rxFIFO]) {
    for (const what of ['push', 'pull', 'reset']) {
      const method = fifo[what];
      fifo[what] = function (...args) {
        const result = method.apply(this, args);
        requests();
        return result;
      };
    }
  }

  const { readUint32, writeUint32, abort, setInterrupts, completeWrite, completeRead } = i2c;
  i2c.readUint32 = function (offset) {
    switch (offset) {
      case DMA_CR: return control;
      case TDLR: return txLevel;
      case RDLR: return rxLevel;
      case ABRT_SOURCE: return this.abortSource; // reading it clears nothing [4.3.17]
      default: return readUint32.call(this, offset);
    }
  };
  i2c.writeUint32 = function (offset, value) {
    switch (offset) {
      case DMA_CR: control = value & 3; return requests();
      case TDLR: txLevel = value & 15; return requests();
      case RDLR: rxLevel = value & 15; return requests();
      case DATA_CMD:
        // "The TX FIFO remains in this flushed state until ... IC_CLR_TX_ABRT is read" [4.3.17].
        if (this.intRaw & TX_ABRT) return undefined;
        return writeUint32.call(this, offset, value);
      case ENABLE:
        writeUint32.call(this, offset, value);
        // "The controller issues a STOP and flushes the Tx FIFO" [4.3.17], also while it holds the
        // bus because that was empty.
        if (value & ABORT && this.state === CONNECTED && !this.busy) {
          this.busy = true;
          this.state = STOP;
          this.onStop();
        }
        return undefined;
      default: return writeUint32.call(this, offset, value);
    }
  };
  // An abort flushes both FIFOs: IC_AVOID_RX_FIFO_FLUSH_ON_TX_ABRT is 0 [4.3.17]. The empty one is
  // an interrupt, too.
  i2c.abort = function (reason) {
    abort.call(this, reason);
    this.rxFIFO.reset();
    setInterrupts.call(this, TX_EMPTY);
  };
  // With TX_EMPTY_CTRL that comes when the last command has been carried out [4.3.17, IC_CON].
  i2c.setInterrupts = function (mask) {
    if (mask === TX_EMPTY && this.busy && this.control & TX_EMPTY_CTRL) return;
    setInterrupts.call(this, mask);
  };
  const done = (method) => function (...args) {
    if (this.txFIFO.itemCount <= this.txThreshold) setInterrupts.call(this, TX_EMPTY);
    return method.apply(this, args);
  };
  i2c.completeWrite = done(completeWrite);
  i2c.completeRead = done(completeRead);

  const reset = () => {
    epoch++;
    resumes = [];
    told('reset');
    device = null;
    Object.assign(i2c, { state: 0, busy: false, stop: false, pendingRestart: false, enable: 0,
      abortSource: 0, intRaw: 0, intEnable: 0 });
    control = txLevel = rxLevel = 0;
    i2c.txFIFO.reset();
    i2c.rxFIFO.reset();
    i2c.checkInterrupts();
  };

  // A memory of 256 bytes, whose first written byte is the pointer.
  const attach = ({ address, memory, nack_at, lose_at, stretch_at, stretch_us, hang_at, clocks }) => {
    const cells = new Uint8Array(256).map((_, i) => (i * 7 + 3) & 0xff);
    if (memory) cells.set(Buffer.from(memory, 'hex'));
    else if (devices[address]) cells.set(devices[address].cells);
    let pointer = 0, writes = 0;
    const trouble = (count) => {
      if (count === stretch_at) hold(stretch_us);
      if (count === hang_at) {
        hang_at = undefined;
        hang(clocks);
      }
    };
    devices[address] = {
      cells,
      begin(mode) { if (!mode) writes = 0; },
      write(byte, count) {
        if (count === nack_at) return 'nack';
        if (count === lose_at) return 'lost';
        if (!writes++) pointer = byte;
        else {
          cells[pointer] = byte;
          pointer = (pointer + 1) & 0xff;
        }
        trouble(count);
        return 'ack';
      },
      read(count) {
        const byte = cells[pointer];
        pointer = (pointer + 1) & 0xff;
        trouble(count);
        return byte;
      },
    };
  };

  // A device holds SDA low until it has had so many clocks, by the pin as the controller gives none.
  let scl = null, left = 0;
  const hang = (clocks) => {
    hold();
    left = clocks;
  };
  const clocked = (pin) => {
    let was = null;
    mcu.gpio[pin].addListener(() => {
      const low = mcu.gpio[pin].outputEnable && !mcu.gpio[pin].outputValue;
      if (was && !low && left && !--left) {
        mcu.gpio[pin - 1].setInputValue(true);
        release();
      }
      was = low;
    });
  };
  return { attach(what) {
    if ('scl' in what && scl === null) {
      scl = what.scl;
      clocked(scl);
      mcu.gpio[scl].setInputValue(true); // pulled up
      mcu.gpio[scl - 1].setInputValue(true);
    }
    if ('address' in what) attach(what);
    else if ('hold_us' in what) hold(what.hold_us);
    else if ('clocks' in what) {
      if (scl !== null) mcu.gpio[scl - 1].setInputValue(false);
      hang(what.clocks);
    }
  }, reset };
};

export const buses = (mcu, event) => {
  repairDma(mcu);
  const spi = mcu.spi.map((bus, n) => spiBus(mcu, bus, `spi${n}`, event));
  const i2c = mcu.i2c.map((bus, n) => i2cBus(mcu, bus, n, event));
  // A reset reaches no block [2.14].
  const resets = mcu.peripherals[0x4000c];
  const { writeUint32 } = resets;
  resets.writeUint32 = function (offset, value) {
    writeUint32.call(this, offset, value);
    const on = offset === 0 ? this.reset ?? value : 0;
    i2c.forEach((bus, n) => { if (on & (8 << n)) bus.reset(); });
  };
  // Joins the device of a stimulus.
  return (what) => {
    if ('spi' in what) spi[what.spi](what);
    else i2c[what.i2c].attach(what);
  };
};
