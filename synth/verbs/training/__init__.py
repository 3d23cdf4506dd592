"""The verbs that look at whole training steps: what they are asked, and how they answer."""
