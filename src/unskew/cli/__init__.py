"""The command line.

- ``addresses``: addresses (s3://…) among the arguments: results fetched, outputs uploaded.
- ``advise``: the command advise.
- ``app``: the commands, and how they are run.
- ``choose``: the command choose.
- ``compare``: the command compare.
- ``demo``: the command demo, step by step.
- ``error_messages``: errors as messages, exit codes and JSON; warnings as notes.
- ``evaluate``: the command evaluate.
- ``evaluation_tables``: an evaluation as tables for a terminal.
- ``export``: the command export.
- ``learning``: the commands that look ahead of training: forecast and rehearse.
- ``markdown``: verdict and forecast as Markdown.
- ``monitor``: the command monitor.
- ``options``: arguments and options that several commands have.
- ``pair_tables``: error rates of compared pairs as tables for a terminal.
- ``simulation``: the commands simulate.
- ``stop_signal``: SIGTERM ends a command as Ctrl-C does.
- ``target_tables``: several targets as tables for a terminal.
- ``terminal``: records as text for a terminal.
- ``train``: the command train.
"""
