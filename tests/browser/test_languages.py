"""Sentences of other languages on the page: direction, and where their lines break.

With the page's own texts in that language; on a narrow screen, so that lines
have to break. SCREENSHOTS says where pictures are kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from hosts import Server
from playing import Player, wait_for_drawing
from test_session import rows, wait_for_rows

from contstim import design_trials
from contstim.design.trials import Layout
from contstim.experiment.scaffold import create_study
from contstim.experiment.study import Study, read_study
from contstim.text.languages import get_language

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

#: Two sentences of each language, long enough to be broken, with marks at unlucky places.
PAIRS = {
    "he": (
        'הרופאה הצעירה חיפשה אתמול את המפתח של בית־הספר ליד הים, אבל ד"ר כהן מצא אותו?',
        "הציירת ראתה את התפוח הגדול של השכנה בגינה הקטנה שליד התחנה, בערב, בלי סיבה!",
    ),
    "zh": (
        "老师说：“孩子们昨天晚上在学校附近的花园里慢慢地寻找那本历史书，可是没有找到！”",
        "医生为什么每天早上都在车站（北京南站）旁边的市场上买苹果、面包、牛奶和新鲜的水果？",
    ),
    "fr": (
        "L'homme qu'on attend dit\u00a0: «\u00a0J'aime l'été\u202f!\u00a0»\u202f; est-ce qu'il "
        "viendra\u202f?",
        "Pourquoi l'enfant cherche-t-il l'orange\u202f? «\u00a0Parce qu'il a faim\u202f!\u00a0»",
    ),
    "tr": (
        "İzmir'deki yaşlı balıkçı, ırmağın kıyısında ıssız bir yolda iki gün önce ne gördü mü?",
        "Işık, İstanbul'a giden öğretmeni akşam çarşıda bekledi ama kardeşi onu bulamadı.",
    ),
}

#: The lines of an element as they are seen: its characters by the height of their boxes.
LINES = """element => {
  const lines = [];
  const range = document.createRange();
  const text = element.firstChild;
  let top = null;
  for (let i = 0; i < text.length; i += 1) {
    range.setStart(text, i);
    range.setEnd(text, i + 1);
    const box = range.getClientRects()[0];
    const letter = text.data[i];
    if (!box || (!box.width && !letter.trim())) continue;
    if (top === null || box.top > top + box.height / 2) lines.push({ text: "", x: [] });
    top = box.top;
    lines.at(-1).text += letter;
    lines.at(-1).x.push(box.left);
  }
  return lines;
}"""


@pytest.fixture
def study_of(tmp_path: Path) -> Callable[[str], Study]:
    """Return a function that makes a study in a language."""

    def make(code: str) -> Study:
        first, second = PAIRS[code]
        columns = {"model_1": ["a"], "model_2": ["b"], "sentence_1": [first]}
        natural = pd.DataFrame({**columns, "sentence_2": [second]})
        design_trials(natural, layout=Layout(1, 2), seed=1).to_csv(
            tmp_path / "trials.csv", index=False
        )
        folder = tmp_path / code
        create_study(folder, tmp_path / "trials.csv", language=code)
        (folder / "consent.md").write_text("# …\n\n…\n", "utf-8")
        path = folder / "study.toml"
        path.write_text(
            path.read_text("utf-8").replace("minimum_rt_ms = 200", "minimum_rt_ms = 20")
        )
        return read_study(folder)

    return make


@pytest.mark.parametrize("code", sorted(PAIRS))
def test_lines_break_by_the_rules_of_the_language(
    code: str, page: Page, study_of: Callable[[str], Study], serve: Callable[[Study], Server]
) -> None:
    study, language = study_of(code), get_language(code)
    player = Player(page)
    page.goto(serve(study).url)
    assert page.get_attribute("html", "dir") == language.direction
    assert page.get_attribute("html", "lang") == code
    player.begin()
    player.screen("trial")
    lines: list[dict[str, Any]] = []
    for width in (320, 340, 390, 480, 1280):
        page.set_viewport_size({"width": width, "height": 844})
        page.wait_for_function("width => matchMedia(`(width: ${width}px)`).matches", arg=width)
        wait_for_drawing(page, 400)
        if folder := os.environ.get("SCREENSHOTS"):
            page.screenshot(path=Path(folder) / f"language-{code}-{width}.png")
        for side in page.locator(".sentence").all():
            assert side.evaluate("element => getComputedStyle(element).direction") == (
                language.direction
            )
            seen = side.evaluate(LINES)
            shown = side.text_content() or ""
            # Nothing is lost, and no-break spaces are those of the sentence.
            assert shown in PAIRS[code]
            lines += seen
            # The first letter is where a reader of the language begins.
            first = seen[0]["x"]
            assert (first[0] == max(first)) == (language.direction == "rtl"), (width, seen[0])
    assert len(lines) > 15
    for line in lines:
        text = line["text"].strip()
        assert text[0] not in "，。！？：；、）”’!?;:»,.", line["text"]
        assert text[-1] not in "（“«", line["text"]


def test_left_and_right_are_kept_in_right_to_left_pages(
    page: Page, study_of: Callable[[str], Study], serve: Callable[[Study], Server]
) -> None:
    study = study_of("he")
    player = Player(page)
    page.goto(serve(study).url)
    player.begin()
    player.screen("trial")
    wait_for_drawing(page, 400)
    boxes = [side.bounding_box() for side in page.locator(".sentence").all()]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[0]["x"] < boxes[1]["x"]
    left = page.locator(".sentence").first.text_content()
    buttons = page.locator("button.answer").all()
    places = [box["x"] for button in buttons if (box := button.bounding_box())]
    assert places == sorted(places)  # the key 1 is on the far left, 6 on the far right
    player.answer("1")
    wait_for_rows(page, study, 1)
    (row,) = rows(study)
    assert row["choice"] == -3  # surely the left one, which is what stood on the left
    every = study.design.trials.values()
    assert left in [trial.shown["left"] for trials in every for trial in trials]
