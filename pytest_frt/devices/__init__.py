"""Facts that a device must show, one YAML file per device."""
