IMPL = None
