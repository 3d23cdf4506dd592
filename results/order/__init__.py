"""Whether what a plan's prices put first is first where plans were measured."""
