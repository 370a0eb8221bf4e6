"""Objectives: how losses meet examples, encoders and heads."""
