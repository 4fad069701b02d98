"""How sure people were: the mean confidence of each condition's choices, as table and figure."""

import numpy as np
import pandas as pd

from contstim.report.style import drawing_axes, sheet


def certainty(evaluation, page):
    data = evaluation.data
    condition = data.pairs["condition"].to_numpy()[data.pair]
    sizes = pd.Series(np.abs(data.rating)).groupby(condition, sort=False)
    table = pd.DataFrame({"confidence": sizes.mean(), "n_choices": sizes.size()})
    table = table.rename_axis("condition").reset_index()
    page.heading("How sure people were")
    page.tabulate("certainty", table)
    (ax,) = drawing_axes([sheet()[0]], 4.0, 2.0)
    ax.barh(table["condition"], table["confidence"])
    page.draw("certainty", ax, "Mean confidence, from 0 to 2.5.")
