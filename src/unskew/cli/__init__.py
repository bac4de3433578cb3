"""The command line: parses, calls `unskew.run` and the others, prints.

- ``app``: the commands, and how they are run.
- ``options``: arguments and options that several commands have.
- ``learning``: the commands that look ahead of training: forecast and rehearse.
- ``train``: the command train.
- ``evaluate``: the command evaluate.
- ``simulation``: the commands simulate.
- ``demo``: the command demo, step by step.
- ``terminal``: records as text for a terminal.
- ``evaluation_tables``: an evaluation as tables for a terminal.
- ``error_messages``: errors as messages, exit codes and JSON; warnings as notes.
"""
