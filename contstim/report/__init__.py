"""Figures and pages, made from tables only."""
