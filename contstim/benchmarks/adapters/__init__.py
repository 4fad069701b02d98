"""Models and choices of stimuli in the tools of others, whose packages are not installed here."""
