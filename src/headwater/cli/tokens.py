"""`headwater token`: make, list and remove API tokens."""

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.common import Json, Yes, confirm, parse_duration, run_local
from headwater.cli.output import print_json, print_result
from headwater.cli.show import console, plain
from headwater.core.access import Scope

if TYPE_CHECKING:
    from headwater.access.operations import TokenList

token_app = typer.Typer(help="Tokens for programs that use the API.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The name of the token.")]


@token_app.command()
def add(
    name: Annotated[str, typer.Argument(help="A word, such as the name of the program that will use it.")],
    scope: Annotated[Scope, typer.Option(help="Each scope includes the one before.")],
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="After 12h or 30d; by default never.")] = None,
    as_json: Json = False,
) -> None:
    """Make a token, and print it once."""
    lifetime = parse_duration(expires, "--expires") if expires is not None else None
    added = run_local(lambda operations: operations.tokens.add(name, scope, lifetime), creates=True)
    if as_json:
        print_json(added)
        return
    until = f" until {added.expires_at:%Y-%m-%d %H:%M} UTC" if added.expires_at else ""
    console.print(f"{plain(added.name)} has the scope {added.scope}{until}. This token is not shown again:")
    typer.echo(added.token)


@token_app.command("list")
def list_tokens(as_json: Json = False) -> None:
    """List tokens. The first one is not among them: it is in the data folder or in the settings."""
    print_result(run_local(lambda operations: operations.tokens.list_tokens()), _print_tokens, as_json=as_json)


def _print_tokens(listed: "TokenList") -> None:
    if not listed.tokens:
        console.print("There are no tokens but the first one; `headwater token add NAME --scope read` makes one.")
    for token in listed.tokens:
        until = f"until {token.expires_at:%Y-%m-%d %H:%M} UTC" if token.expires_at else "without end"
        used = f"last used {token.last_used_at:%Y-%m-%d %H:%M} UTC" if token.last_used_at else "never used"
        console.print(f"[bold]{plain(token.name)}[/]  {token.scope}, {until}, {used}")


@token_app.command()
def remove(name: Name, yes: Yes = False) -> None:
    """Remove a token. Requests with it are refused from now on."""
    confirm(f"Remove the token {name}? Programs that use it are refused then.", yes=yes)
    run_local(lambda operations: operations.tokens.remove(name))
    console.print(f"{plain(name)} is removed.")
