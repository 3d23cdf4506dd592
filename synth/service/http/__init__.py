"""The verbs over HTTP: routes, keys, problems, events, metrics and logs."""
