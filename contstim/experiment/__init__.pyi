"""Public names of `contstim.experiment`."""

from contstim.experiment.adaptive import create_adaptive_study
from contstim.experiment.exporting import read_recruiter_ids, write_csv, write_export
from contstim.experiment.importing import import_logs
from contstim.experiment.maintenance import (
    close_study,
    delete_participant,
    extend_study,
    release_sessions,
)
from contstim.experiment.options import TrialOptions
from contstim.experiment.pages import write_jatos, write_static
from contstim.experiment.presentations import PRESENTATIONS, Presentation, make_presentation
from contstim.experiment.scaffold import (
    STUDY_PRESETS,
    create_example_study,
    create_study,
    write_sentence_trials,
)
from contstim.experiment.schema import PILOT_FILE, backup_data
from contstim.experiment.serving import serve
from contstim.experiment.study import Study, read_study
from contstim.experiment.study_data import read_study_data
from contstim.experiment.timeline import format_timeline, make_timeline_variables
from contstim.experiment.trials import read_design
from contstim.experiment.vendor import fetch_on_first_use, fetch_vendor

__all__ = [
    "PILOT_FILE",
    "PRESENTATIONS",
    "STUDY_PRESETS",
    "Presentation",
    "Study",
    "TrialOptions",
    "backup_data",
    "close_study",
    "create_adaptive_study",
    "create_example_study",
    "create_study",
    "delete_participant",
    "extend_study",
    "fetch_on_first_use",
    "fetch_vendor",
    "format_timeline",
    "import_logs",
    "make_presentation",
    "make_timeline_variables",
    "read_design",
    "read_recruiter_ids",
    "read_study",
    "read_study_data",
    "release_sessions",
    "serve",
    "write_csv",
    "write_export",
    "write_jatos",
    "write_sentence_trials",
    "write_static",
]
