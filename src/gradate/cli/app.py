"""The verbs gathered, and how a command line ends: its exit code and its one line of error."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Annotated, NoReturn, TextIO

import typer

from gradate import __version__
from gradate.cli import (
    ceiling,
    check,
    compare,
    corpus,
    demo,
    encode,
    env,
    evaluate,
    export,
    fuse,
    mine,
    recipes,
    reproduce,
    score,
    train,
)
from gradate.errors import GradateError

FAILURE, USAGE, INTERRUPTED = 1, 2, 130
TRACEBACK = "GRADATE_TRACEBACK"

app = typer.Typer(
    name="gradate",
    help="Embedding models whose similarity follows the grades.",
    epilog="Exit codes: 0 ok, 1 failure, 2 usage or bad input, 3 audit found blocking problems, 130 interrupted.",
    add_completion=False,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"gradate {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    show_traceback: Annotated[
        bool, typer.Option("--traceback", help=f"Show where an unexpected error arose ({TRACEBACK}=1 does the same).")
    ] = False,
) -> None:
    if show_traceback:
        os.environ[TRACEBACK] = "1"
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(USAGE)


app.command("demo")(demo.demo)
app.command("mine")(mine.mine)
app.command("check")(check.check)
app.add_typer(corpus.app, name="corpus")
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("compare")(compare.compare)
app.command("fuse")(fuse.fuse)
app.command("ceiling")(ceiling.ceiling)
app.command("reproduce")(reproduce.reproduce)
app.command("score")(score.score)
app.command("encode")(encode.encode)
app.command("export")(export.export)
app.add_typer(recipes.app, name="recipes")
app.command("env")(env.env)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave the process with its exit code.

    Args:
        arguments: The words after `gradate`; default those of this process.
    """
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command line.

    Returns:
        The exit code: 0 ok, 1 failure, 2 usage or bad input, 3 blocking problems found, 130 interrupted.
    """
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        if not sys.stderr.isatty():
            _hush_libraries()
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    try:
        code = app(args=list(arguments), prog_name="gradate", standalone_mode=False)
    except GradateError as error:
        return _fail(str(error), error.exit_code)
    except typer.TyperException as error:
        return _fail(_usage_line(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", INTERRUPTED)
    except Exception as error:
        if os.environ.get(TRACEBACK, "0") not in ("", "0"):
            traceback.print_exc()
            return FAILURE
        where = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        kind = type(error).__name__
        return _fail(f"{where}{kind}: {what} (gradate --traceback … shows where it arose)", FAILURE)
    if code == INTERRUPTED:
        return _fail("interrupted", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"error: {' '.join(message.split())}\n")
    return code


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    sys.stderr.write(f"warning: {' '.join(str(message).split())}\n")


def _usage_line(error: typer.TyperException) -> str:
    """A usage error in one line, with the help page to read."""
    context = getattr(error, "ctx", None)
    if context is None:
        return error.format_message()
    return f"{error.format_message()} (see {context.command_path} --help)"


def _hush_libraries() -> None:
    """Keep other libraries' progress bars and warnings out of logs and pipes; our own warnings stay."""
    for name in ("TQDM_DISABLE", "HF_HUB_DISABLE_PROGRESS_BARS", "HF_DATASETS_DISABLE_PROGRESS_BARS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("DATASETS_VERBOSITY", "error")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("default", module=r"gradate(\..*)?$")
