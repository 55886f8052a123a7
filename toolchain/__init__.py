"""tilewright: the software stack of a DNN accelerator, made from one YAML file."""
