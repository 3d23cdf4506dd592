"""One collective on one system: from a request to ranked, proved and explained answers."""
