"""What travels over the network: the bodies of requests and answers, checked, and the verbs of workers."""
