"""Sign in by a token or by a link that works once, and sign out."""

from typing import Annotated

from fastapi import FastAPI, Form, Request, Response

from headwater.access.operations import Access
from headwater.api.common import OPEN
from headwater.api.errors import find_status
from headwater.core.errors import HeadwaterError
from headwater.web.sessions import ROOT
from headwater.web.texts import query_string
from headwater.web.view import View


def address(request: Request) -> str:
    """Return the address of the sign-in page, which leads back to the page of the request."""
    here = request.url.path.removeprefix(ROOT) + (f"?{request.url.query}" if request.url.query else "")
    return f"{ROOT}/sign-in{query_string(next=here)}"


def add_pages(app: FastAPI, view: View) -> None:
    """Add the pages."""

    @app.get("/sign-in", dependencies=OPEN)
    async def show(request: Request, code: str = "", next: str = "") -> Response:  # noqa: A002 - the parameter's name
        if not code:
            return view.page(request, "sign_in.html", next=next, message="")
        access = view.sessions.use_link(code)
        if access is None:
            message = "This link was used already or is too old. Use a token, or start Headwater again for a new link."
            return view.page(request, "sign_in.html", 403, next=next, message=message)
        return _begin(request, access, next)

    @app.post("/sign-in", dependencies=OPEN)
    async def sign_in(
        request: Request,
        token: Annotated[str, Form(max_length=1000)] = "",
        next: Annotated[str, Form(max_length=2000)] = "",  # noqa: A002 - the name of the field
    ) -> Response:
        try:
            access = await view.sessions.sign_in(request, token)
        except HeadwaterError as error:
            return view.page(request, "sign_in.html", find_status(error.reason), next=next, message=str(error))
        return _begin(request, access, next)

    @app.post("/sign-out", dependencies=OPEN)
    async def sign_out(request: Request) -> Response:
        response = view.redirect(request, "/sign-in")
        view.sessions.end(request, response)
        return response

    def _begin(request: Request, access: Access, path: str) -> Response:
        response = view.redirect(request, path if path.startswith("/") and path.isprintable() else "/today")
        view.sessions.begin(request, response, access)
        return response
