"""OpenAI's requests and answers, whoever brings them: a server or a file."""
