"""The LLM front end: a model writes IR for sources that no tracer reads; what it writes is checked before it counts."""
