def ffn(x):
    return x
