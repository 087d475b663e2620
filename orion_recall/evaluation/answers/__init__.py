"""Whether anything answers: questions that nothing answers, reliability, and the weights of the probability."""
