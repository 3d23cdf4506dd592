"""The service: the verbs over HTTP, with jobs that survive, for many people and one instance."""
