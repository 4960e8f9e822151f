setenv("GREETING", "hello")
