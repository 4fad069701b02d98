"""A custom presentation: ten coins are divided between two sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from contstim.experiment.presentations import PairChoice


class Coins(PairChoice):
    """Two sentences and ten coins: 9 and 1, 8 and 2 ... 1 and 9, never 5 and 5."""

    module = "coins.js"
    text_keys = {"trial_prompt": "coins_prompt", "instructions_text": "coins_instructions"}
    translations = {
        "en": {
            "coins_prompt": "How do you divide ten coins between the sentences?",
            "coins_instructions": "Give more coins to the sentence that is more likely.",
        },
        "de": {
            "coins_prompt": "Wie verteilen Sie zehn Münzen auf die Sätze?",
            "coins_instructions": "Geben Sie dem wahrscheinlicheren Satz mehr Münzen.",
        },
    }
    task = "You will see pairs of sentences and divide ten coins between them."
    answer_description = (
        "-4 (nine coins to the left sentence) to 4 (nine to the right one), never 0"
    )
    time_columns = None

    @property
    def scale(self) -> str:
        """Nothing of the study's options changes it."""
        return self.module

    def choices(self, fields: Mapping[str, str]) -> Sequence[int]:
        """Return the divisions, from nine coins to the left to nine to the right."""
        return (-4, -3, -2, -1, 1, 2, 3, 4)
