"""`gradate recipes`: the shipped recipes, to read or to copy out and own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradate.cli.options import JsonOption
from gradate.cli.output import facts, open_output

app = typer.Typer(invoke_without_command=True, help="List, show or copy the shipped recipes.")

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="A shipped recipe, as `gradate recipes` lists them.")
]


@app.callback()
def _list_by_default(context: typer.Context, as_json: JsonOption = False) -> None:
    if context.invoked_subcommand is None:
        list_names(as_json)


@app.command("list")
def list_names(as_json: JsonOption = False) -> None:
    """List the shipped recipes."""
    with open_output(as_json) as output:
        from gradate.runs.recipe import list_recipes

        found = list_recipes()
        listed = [{"name": name, "description": description} for name, description in found.items()]
        output.result(listed, facts(found))


@app.command()
def show(name: NameArgument, as_json: JsonOption = False) -> None:
    """Print a recipe."""
    with open_output(as_json) as output:
        from gradate.runs.recipe import recipe_text

        text = recipe_text(name)
        output.result({"name": name, "recipe": text}, text.rstrip())


@app.command()
def copy(
    name: NameArgument,
    dest: Annotated[Path, typer.Argument(metavar="DEST", help="The file to write, or a folder.")],
    as_json: JsonOption = False,
) -> None:
    """Copy a recipe out, to be changed and passed to `gradate train`."""
    with open_output(as_json) as output:
        from gradate.runs.recipe import copy_recipe

        written = copy_recipe(name, dest)
        output.result({"name": name, "out": str(written)}, f"{written}")
