"""Whoever asks the service: HTTP/1.1 on kept connections, light beside what it measures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Heard:
    """An answer; header names are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Lines:
    """Connections to one address, opened when none is idle."""

    host: str
    port: int
    _idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=list)

    async def post(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> Heard:
        return await self.call("POST", path, body, headers or {})

    async def get(self, path: str) -> Heard:
        return await self.call("GET", path, b"", {})

    async def call(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Heard:
        """One request and its answer. Raises OSError or EOFError where the connection breaks."""
        told = {
            "Host": f"{self.host}:{self.port}",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **headers,
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        return await self.send(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)

    async def send(self, request: bytes) -> Heard:
        """The answer to a request as it goes over the wire. Raises as ``call`` does."""
        reader, writer = await self._line()
        try:
            writer.write(request)
            heard = await _heard(reader)
        except BaseException:
            writer.close()
            raise
        if heard.headers.get("connection") == "close":
            writer.close()
        else:
            self._idle.append((reader, writer))
        return heard

    async def _line(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(self.host, self.port, limit=2**24)

    async def close(self) -> None:
        while self._idle:
            _, writer = self._idle.pop()
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def _heard(reader: asyncio.StreamReader) -> Heard:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {}
    for line in head[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Heard(int(head[0].split(" ")[1]), headers, body)


@asynccontextmanager
async def lines(host: str, port: int) -> AsyncIterator[Lines]:
    """Connections that are closed in the end."""
    made = Lines(host, port)
    try:
        yield made
    finally:
        await made.close()
