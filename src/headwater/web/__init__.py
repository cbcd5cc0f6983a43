"""The pages: HTML over the same operations as the API and the command line."""

from headwater.web.app import make_app
from headwater.web.sessions import SignInLinks

__all__ = ["SignInLinks", "make_app"]
