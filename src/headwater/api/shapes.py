"""The shapes of what the API takes and answers."""

from pydantic import BaseModel, Field


class ErrorBody(BaseModel):
    """Why a request was not answered."""

    reason: str = Field(description="A code from the closed list of reasons.")
    message: str = Field(description="A sentence for a person.")
    run_id: int | None = Field(
        default=None, description="With `run_under_way`: that run, null where a poll is in the way."
    )


class ErrorAnswer(BaseModel):
    """The one shape of every error."""

    error: ErrorBody


class Health(BaseModel):
    """A sign of life."""

    status: str
    version: str
