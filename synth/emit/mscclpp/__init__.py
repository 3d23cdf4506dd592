"""MSCCL++ execution plans, and the judge that reads only the plan."""
