"""The stages of a study, one file each; `contstim.pipeline.plan.STAGES` lists them in order."""
