"""What switches AMP on and off: options of the command line, devices, dtypes."""
