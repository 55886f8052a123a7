"""Lines of standard input that are no messages get the answer that JSON-RPC says; the library reads over them, and a client would wait."""

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError


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


@dataclass(frozen=True)
class Messages:
    """The library's stream of messages, as it reads one. lines: messages, and an exception for each line that is none. answers: takes what is sent
    to the client."""

    lines: Any
    answers: Any

    @property
    def last_context(self) -> Any:
        """The context in which the last message was sent."""
        return self.lines.last_context

    async def receive(self) -> SessionMessage:
        """The next message. Raises as the library's stream, at its end."""
        item: SessionMessage | Exception = await self.lines.receive()
        while isinstance(item, Exception):
            await self._answer(item)
            item = await self.lines.receive()
        return item

    async def _answer(self, error: Exception) -> None:
        fault = fault_of(error)
        if fault is not None:
            await self.answers.send(SessionMessage(fault))

    async def aclose(self) -> None:
        await self.lines.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        item: SessionMessage | Exception = await anext(self.lines)
        while isinstance(item, Exception):
            await self._answer(item)
            item = await anext(self.lines)
        return item

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None) -> None:
        await self.aclose()
