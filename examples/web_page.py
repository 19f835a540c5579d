"""A web page with live values: a temperature that the page follows, and a lamp that it switches.

Everything goes through one broker, so the page, the lamp and the sensor do not know one another.
Each browser has a queue with a bound: a slow one misses old values, and holds nobody up.

    GPIO 15    a LED with a resistor

Install: asyncio_alt, pubsub.json, and the folder src/microdot of microdot 2.7.
Run: mpremote run web_page.py, on a board with WiFi that has joined it; open http://ADDRESS:5000
On another board: change the pin and the thermometer.
"""

import json

from machine import ADC, Pin

import asyncio_alt

asyncio_alt.install()  # so that microdot has this asyncio, too

import asyncio

from microdot import Microdot
from microdot.websocket import with_websocket

from asyncio_alt.pubsub import Broker

PORT = 5000
EVERY = 1  # s
PAGE = """<!doctype html><meta charset="utf-8"><title>Room</title>
<p>Temperature: <b id="room/temperature">?</b> °C</p>
<p>Lamp: <b id="room/lamp">?</b>
<button onclick="live.send('on')">on</button> <button onclick="live.send('off')">off</button>
<script>
const live = new WebSocket(`ws://${location.host}/live`);
live.onmessage = ({data}) => {
  const [topic, value] = JSON.parse(data);
  document.getElementById(topic).textContent = value;
};</script>"""

app = Microdot()
broker = Broker()
lamp = Pin(15, Pin.OUT)
thermometer = ADC(4)


@app.get("/")
async def page(request):
    return PAGE, {"Content-Type": "text/html"}


@app.get("/live")
@with_websocket
async def live(request, ws):
    async with broker.subscribe("room/+") as messages:  # begins with the retained values
        sending = asyncio.create_task(send(ws, messages))
        try:
            while True:
                value = "on" if await ws.receive() == "on" else "off"
                broker.publish("room/lamp", value, retain=True)
        finally:
            sending.cancel()


async def send(ws, messages):
    async for message in messages:
        await ws.send(json.dumps(message))


async def main():
    broker.subscribe_call("room/lamp", lambda topic, value: lamp(value == "on"))
    broker.publish("room/lamp", "off", retain=True)
    asyncio.create_task(app.start_server(port=PORT))
    while True:
        volts = thermometer.read_u16() * 3.3 / 65535
        broker.publish("room/temperature", round(27 - (volts - 0.706) / 0.001721, 1), retain=True)
        await asyncio.sleep(EVERY)


asyncio.run(main())
