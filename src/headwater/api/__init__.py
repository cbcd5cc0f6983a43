"""The HTTP door: JSON over the desk, with OpenAPI."""

from headwater.api.app import make_app

__all__ = ["make_app"]
