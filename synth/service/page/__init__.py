"""The page: forms, jobs and results for people who would rather look than read JSON."""
