"""What happens when: activities wait for each other and share links. Knows no programs."""
