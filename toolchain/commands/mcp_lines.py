"""The library's streams of messages, mended in two places.

Lines of standard input that are no messages get the answer that JSON-RPC says; the library reads over them, and a client would wait. The end of
the input is held back until requests under way are answered; the library would cancel them.
"""

import asyncio
import select
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from pydantic import ValidationError

LOOK_SECONDS = 0.1
"""Between two looks for the last answer and for the client, once the input has ended."""


def fault_of(error: Exception) -> JSONRPCError | None:
    """The answer to a line, with the id null; None for an empty one, which is no message. error: why the library does not read it."""
    details = error.errors(include_url=False)[:1] if isinstance(error, ValidationError) else []
    if any(isinstance(each["input"], str) and not each["input"].strip() for each in details):
        return None
    if any(each["type"] == "json_invalid" for each in details):
        fault = ErrorData(code=PARSE_ERROR, message=f"the line is no JSON: {details[0]['msg']}")
    else:
        fault = ErrorData(code=INVALID_REQUEST, message="the line is no request of JSON-RPC 2.0")
    return JSONRPCError(jsonrpc="2.0", id=None, error=fault)


def is_read(number: int) -> bool:
    """Whether a file takes what is written. number: its descriptor; of a pipe or a socket the other end is open."""
    poll = select.poll()
    poll.register(number, 0)
    return not poll.poll(0)


@dataclass(frozen=True)
class UnderWay:
    """Requests without an answer. numbers: their ids as text, one as often as it is used."""

    numbers: list[str] = field(default_factory=list[str])

    def note_line(self, message: object) -> None:
        """A request is to be answered, and one that the client cancels is not."""
        if isinstance(message, JSONRPCRequest):
            self.numbers.append(str(message.id))
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._settle((message.params or {}).get("requestId"))

    def note_answer(self, message: object) -> None:
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._settle(message.id)

    def _settle(self, number: object) -> None:
        if str(number) in self.numbers:
            self.numbers.remove(str(number))


@dataclass(frozen=True)
class Answers:
    """The library's stream to the client, which tells of the answers that it has taken."""

    stream: Any
    under_way: UnderWay

    async def send(self, item: SessionMessage) -> None:
        """Raises as the library's stream, where it is closed."""
        await self.stream.send(item)
        self.under_way.note_answer(item.message)

    async def aclose(self) -> None:
        await self.stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None) -> None:
        await self.aclose()


@dataclass(frozen=True)
class Messages:
    """The library's stream of messages, as it reads one. lines: messages, and an exception for each line that is none. answers: takes what is sent
    to the client. listens: whether the client still reads them."""

    lines: Any
    answers: Answers
    listens: Callable[[], bool]

    @property
    def last_context(self) -> Any:
        """The context in which the last message was sent."""
        return self.lines.last_context

    async def receive(self) -> SessionMessage:
        """The next message. Raises as the library's stream, at its end."""
        try:
            return await anext(self)
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def _answer(self, error: Exception) -> None:
        fault = fault_of(error)
        if fault is not None:
            await self.answers.send(SessionMessage(fault))

    async def aclose(self) -> None:
        await self.lines.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        """The next message. Ends when the lines do and all requests are answered, each of which has its deadline."""
        async for item in self.lines:
            if not isinstance(item, Exception):
                self.answers.under_way.note_line(item.message)
                return item
            await self._answer(item)
        while self.answers.under_way.numbers and self.listens():
            await asyncio.sleep(LOOK_SECONDS)
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None) -> None:
        await self.aclose()
