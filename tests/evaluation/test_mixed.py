"""Test the items in the table for mixed models, `contstim.evaluation.mixed`."""

from contstim.evaluation.importers import read_choices
from contstim.evaluation.mixed import mixed_model_table, write_mixed_models
from contstim.evaluation.trials import TrialData


def test_mixed_model_table_has_the_items_of_the_analysis(make_study, tmp_path):
    study, scores = make_study(n_people=6)
    wide = scores.set_index("sentence")
    numbers = {
        "none": (None, 20),
        # Pairs of no item are items of their own.
        "some": (study["trial"].where(study["trial"] > 5).floordiv(3), 5 + 5),
    }
    for name, (item, n_items) in numbers.items():
        human = read_choices(study.assign(item=item))
        assert TrialData.from_choices(human.choices).n_items == n_items
        table = mixed_model_table(human, wide)
        assert table["item"].notna().all()
        assert table["item"].nunique() == n_items
        assert table.groupby("pair")["item"].nunique().eq(1).all()
        assert table.groupby("item")["pair"].nunique().max() == (1 if name == "none" else 3)
        write_mixed_models(human, wide, tmp_path / name)
        script = (tmp_path / name / "mixed_glmer.R").read_text("utf-8")
        assert ("+ (1 | pair)" in script) == (name == "some")
