"""Package of Horovod's exceptions, which are those of the training runtime."""
