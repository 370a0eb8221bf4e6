from __future__ import annotations

import io
import sys

import pytest

from gradate.cli.output import open_output
from gradate.cli.watch import Watcher
from gradate.objectives.config import ObjectiveConfig
from gradate.training.stage import Stage

HEAD = Stage(trainable="head", objective=ObjectiveConfig(name="l1"))
SUMMARY = {"step": 20, "metric": "spearman_cosine", "best": 81.239, "seconds": 3.21, "pairs_per_second": 1234.5}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watch(output):
    with Watcher(output) as watcher:
        watcher.note("batch_size = 16: enough pairs")
        watcher.stage_started(1, 2, HEAD, None)
        watcher.stepped(7, {"loss": 0.5})
        watcher.stage_finished(1, SUMMARY | {"step": 7, "metric": None, "best": None})
        watcher.stage_started(2, 2, Stage(source="pairs"), 40)
        watcher.selected(0, "spearman_cosine", 80.0, False)
        watcher.stepped(20, {})
        watcher.stepped(20, {"loss": 0.12345, "epoch": 1.5})
        watcher.selected(20, "spearman_cosine", 81.239, True)
        watcher.stage_finished(2, SUMMARY)


def test_decisions_stages_and_selections_are_told_line_by_line(capsys):
    with open_output(False) as output:
        watch(output)
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split() for line in err.splitlines() if line] == [
        "batch_size = 16: enough pairs".split(),
        "stage 1/2: head on pairs, l1, solved to the optimum".split(),
        "solved in iterations: 7; 3.2 s, 1,234 pairs/s".split(),
        "stage 2/2: all on pairs, smooth-k2, 40 updates".split(),
        "update epoch loss spearman_cosine".split(),
        "0 0.00 – 80.00".split(),
        "20 1.50 0.1235 81.24 *".split(),
        "kept update 20, spearman_cosine 81.24; 3.2 s, 1,234 pairs/s".split(),
    ]


def test_quiet_says_nothing(capsys):
    with open_output(False, quiet=True) as output:
        watch(output)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar_that_goes_away_even_after_an_error(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with pytest.raises(KeyboardInterrupt), open_output(False) as output, Watcher(output) as watcher:
        watcher.stage_started(1, 1, Stage(), 40)
        watcher.stepped(20, {"loss": 0.25})
        raise KeyboardInterrupt
    shown = terminal.getvalue()
    assert "20/40" in shown and "0.2500" in shown
    assert shown.rstrip().endswith("\x1b[2K")  # the bar's line is wiped
