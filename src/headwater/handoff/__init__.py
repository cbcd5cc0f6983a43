"""Items that runs touched, handed off to the jobs that wait for their pages."""
