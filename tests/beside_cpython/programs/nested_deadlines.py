# ruff: noqa: F821
# An inner deadline that passes after the outer one does not take its place.


async def t0(me):
    try:
        async with asyncio.timeout(1 * UNIT):
            try:
                async with asyncio.timeout(2 * UNIT):
                    try:
                        await nap(9)
                    finally:
                        await nap(5)
            except asyncio.TimeoutError:
                log(me, "inner")
            await nap(20)
    except asyncio.TimeoutError:
        log(me, "outer")
