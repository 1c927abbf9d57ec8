"""Local page of the command ``prosparse serve``.

The server imports neither NumPy nor the estimators, so that the first page is shown without delay.
Worker processes read tables and run commands.

    access        who may access the server: token, cookie, Host, Origin, response headers
    uploads       files from the browser to a private folder
    workspace     tables, setups and analyses of a session, and their folder
    arguments     choices of the user as arguments of the command
    questions     questions in plain words, and the commands that answer them
    jobs, worker  processes in which tables are checked and commands run
    pages         routes and templates
    server        socket, browser, shutdown
"""
