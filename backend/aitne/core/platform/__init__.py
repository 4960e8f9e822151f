"""Settings of the platform, its plug-ins, metrics and processes."""
