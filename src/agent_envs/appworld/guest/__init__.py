"""The code of the sandboxed process: only the standard library, and no data of a task's answers.

`warden` is started once per training process and forks an interpreter for each world.
"""
