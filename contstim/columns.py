"""Names of the columns of scores, choices and triplets, in order."""

#: One row per sentence and model; `log_prob` in nats.
SCORES = ("sentence", "model", "log_prob", "n_tokens", "n_words", "stderr")
#: Column of a scores table with the unit of the scores.
UNIT = "unit"
#: Column of a scores table with the model specification (``hf:gpt2``) of a renamed model.
SPEC = "spec"
#: Column of a scores table with the definition of the score (`contstim.models.base.Event`).
EVENT = "event"

#: One row per trial and participant; `rating` is negative if sentence 1 was preferred.
CHOICES = (
    *("participant", "group", "trial", "condition", "sentence_1", "sentence_2"),
    *("model_1", "model_2", "rating", "rt_ms"),
)

#: The two sentences of a pair.
PAIR = ("sentence_1", "sentence_2")

#: One row per triplet: a natural sentence, a synthetic sentence that model 1 accepts and model 2
#: rejects, and the reverse. ``..._lp_k`` is the log-probability under model k in nats.
TRIPLETS = (
    *("model_1", "model_2", "natural", "synthetic_1", "synthetic_2", "natural_lp_1"),
    *("natural_lp_2", "synthetic_1_lp_1", "synthetic_1_lp_2"),
    *("synthetic_2_lp_1", "synthetic_2_lp_2"),
)
