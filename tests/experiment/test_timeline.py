"""Test `timeline_variables`, and that exported data reproduce the design."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from studies import make_trials

from contstim.cli import main
from contstim.evaluation import read_choices
from contstim.experiment.options import TrialOptions
from contstim.experiment.presentations import make_presentation
from contstim.experiment.timeline import make_timeline_variables
from contstim.experiment.trials import read_design

KEY = ["participant", "trial"]


@pytest.fixture
def trials(tmp_path):
    path = tmp_path / "trials.csv"
    make_trials().assign(frame="now, or then").to_csv(path, index=False)
    return path


def as_jspsych_writes(lists, choose):
    """Return data of one participant per list in the format of jsPsych 8."""
    rows = []
    for name, variables in lists.items():
        rows.append({"trial_type": "instructions", "trial_index": 0, "participant": f"x{name}"})
        for index, one in enumerate(variables, start=1):
            rows.append(
                {
                    **one["data"],
                    "rt": 900 + index,
                    "stimulus": "Which?",
                    "response": choose(one),
                    "trial_type": "html-button-response",
                    "trial_index": index,
                    "plugin_version": "2.1.0",
                    "time_elapsed": 1000 * index,
                    "participant": f"x{name}",
                }
            )
    return rows


def test_jspsych_data_reproduce_the_design(trials, tmp_path, capsys):
    out = tmp_path / "trials.json"
    assert main(["experiment", "timeline", str(trials), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: 4 lists of 6 trials, one per participant\n"
    lists = json.loads(out.read_text("utf-8"))
    assert list(lists) == ["1", "2", "3", "4"]
    rows = as_jspsych_writes(lists, lambda one: int(one["right"] == one["data"]["sentence_1"]))
    data = tmp_path / "data.json"
    data.write_text(json.dumps(rows), "utf-8")
    choices = read_choices(data, "jspsych", n_choices=2).choices
    design = pd.read_csv(trials, dtype=str)
    joined = choices.assign(participant=choices["assignment"]).merge(
        design.drop(columns=["stimulus"]), on=KEY, suffixes=("", "_planned")
    )
    assert len(joined) == len(choices) == len(design)
    # In the choices sentence 1 comes first in code points; what goes with it is turned too.
    turned = joined["sentence_1"] != joined["sentence_1_planned"]
    assert 0 < turned.sum() < len(joined)
    for one, other in (("1", "2"), ("2", "1")):
        for name in ("sentence", "model"):
            planned = joined[f"{name}_{one}_planned"].where(
                ~turned, joined[f"{name}_{other}_planned"]
            )
            pd.testing.assert_series_equal(joined[f"{name}_{one}"], planned, check_names=False)
    # Everybody chose sentence 1 of the design.
    assert (joined["rating"] == (-2.5 * (1 - 2 * turned))).all()
    left = joined["side_1"].eq("left") != turned
    assert (left == joined["side_1_planned"].eq("left")).all()
    for name in ("group", "item", "condition"):
        assert (joined[name].astype(str) == joined[f"{name}_planned"]).all()
    assert (joined["frame"] == "now, or then").all()


def test_timeline_variables_contain_sentences_and_row(trials, tmp_path):
    lists = make_timeline_variables(read_design(trials))
    first = pd.read_csv(trials).iloc[0]
    left, right = ("1", "2") if first["side_1"] == "left" else ("2", "1")
    shown = lists["1"][0]
    assert (shown["left"], shown["right"]) == (
        first[f"sentence_{left}"],
        first[f"sentence_{right}"],
    )
    assert shown["data"]["assignment"] == shown["data"]["trial"] == "1"
    assert shown["data"]["stimulus_number"] == str(first["stimulus"])
    catch = [one["data"].get("expected") for one in lists["1"]]
    assert catch.count("1") == 2
    assert catch.count(None) == 4
    of_groups = make_timeline_variables(read_design(trials), lists_per="group")
    assert list(of_groups) == ["1", "2"]
    assert "assignment" not in of_groups["1"][0]["data"]
    script = tmp_path / "trials.js"
    assert main(["experiment", "timeline", str(trials), "--out", str(script)]) == 0
    text = script.read_text("utf-8")
    head = "const timeline_variables = "
    assert json.loads(text.removeprefix(head).removesuffix(";\n")) == lists
    assert main(["experiment", "timeline", str(trials), "--out", str(trials)]) == 2


def test_timeline_of_rated_sentences_has_expected_answers(tmp_path):
    path = tmp_path / "trials.csv"
    path.write_text(
        "participant,group,trial,condition,sentence,item,expected\n1,1,1,a,Dogs run.,4,5\n", "utf-8"
    )
    rating = make_presentation(TrialOptions("rating"))
    lists = make_timeline_variables(read_design(path, presentation=rating), rating)
    (one,) = lists["1"]
    assert one["sentence"] == "Dogs run."
    assert (one["data"]["expected"], one["data"]["item"]) == ("5", "4")


def test_pcibex_results_reproduce_the_design(trials, tmp_path):
    """The columns are those logged by the script of the guide."""
    guide = (Path(__file__).parents[2] / "docs/how-to/pcibex.md").read_text("utf-8")
    logged = dict(re.findall(r'\.log\("(\w+)", (?:row\.)?(\S+)\)\n', guide))
    fixed = ["Results reception time", "MD5 hash of participant's IP address", "Controller name"]
    fixed += ["Order number of item", "Inner element number", "Label", "Latin Square Group"]
    fixed += ["PennElementType", "PennElementName", "Parameter", "Value", "EventTime"]
    lines = ["# Results on Friday", "# Columns below this comment are as follows:"]
    names = [*fixed, *logged, "Comments"]
    lines += [f"# {number}. {name}." for number, name in enumerate(names, start=1)]
    design = pd.read_csv(trials, dtype=str, keep_default_na=False)
    for order, row in enumerate(design.to_dict("records"), start=1):
        own = {'GetURLParameter("id")': f"x{row['participant']}"}
        cells = [own.get(name, row.get(name, "")) for name in logged.values()]
        for parameter, value, time in (("_Trial_", "Start", 1000), ("Selection", "left", 1900)):
            place = (
                ["PennController-trial", "choice"] if value == "left" else ["", "PennController"]
            )
            start = ["1700000000", "hash", "PennController", str(order), "0", "trial", "NULL"]
            line = [*start, *place, parameter, value, str(time), *cells, ""]
            lines.append(",".join(cell.replace("%", "%25").replace(",", "%2C") for cell in line))
    data = tmp_path / "results.csv"
    data.write_text("\n".join(lines) + "\n", "utf-8")
    choices = read_choices(data, columns={"participant": "id"}).choices
    choices = choices.assign(participant=choices["assignment"].astype(str))
    choices["trial"] = choices["trial"].astype(str)
    joined = choices.merge(design, on=KEY, suffixes=("", "_planned"))
    assert len(joined) == len(choices) == len(design)
    assert (joined["condition"] == joined["condition_planned"]).all()
    chosen = joined["sentence_1"].where(joined["rating"] < 0, joined["sentence_2"])
    is_left = joined["side_1_planned"] == "left"
    left = joined["sentence_1_planned"].where(is_left, joined["sentence_2_planned"])
    assert (chosen == left).all()
    assert (joined["rt_ms"] == 900).all()
