"""Experiments with torch. Nothing else in amp-lint imports torch."""
