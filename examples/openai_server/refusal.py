"""What a client did wrong, as OpenAI's interface says it."""

from __future__ import annotations

from typing import Any


class Refusal(Exception):  # noqa: N818 - an answer, not a failure of the server
    """A request that is not carried out.

    Args:
        message: what is wrong, for a person.
        status: HTTP status.
        param: the field at fault.
        code: a stable word for programs.
    """

    def __init__(self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message, self.status, self.param, self.code = message, status, param, code

    @property
    def body(self) -> dict[str, Any]:
        """The JSON that answers the request."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}
