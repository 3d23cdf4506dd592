"""A training job's collectives: read from a file, made from a model's shape, placed at best."""
