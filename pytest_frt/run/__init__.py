"""From a configuration to verdicts: what to judge, the bench that gathers evidence, and records of what was proven."""
