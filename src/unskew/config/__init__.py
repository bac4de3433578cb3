"""Configurations: TOML files → checked settings of a run, and back.

- ``run_config``: the door, `read_config` and `RunConfig`; writes settings again.
- ``sections``: the keys of every section, with types, defaults and descriptions.
- ``value_types``: types of values with rules of their own.
- ``families``: ``[bias]`` and ``features``, whose keys come from dataclasses.
- ``learn_keys``: keys of ``[learn]`` that do not go with the model.
- ``effects``: which settings can change a result.
- ``problems``: error messages with line, key and the nearest valid name; the paths named.
- ``toml_text``: the position of every key in a TOML text, and TOML from plain values.
- ``starter_file``: the commented configuration that `unskew init` writes.
"""
