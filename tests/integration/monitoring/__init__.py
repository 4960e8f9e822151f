"""Tests of what monitors the platform: dashboards and templates."""
