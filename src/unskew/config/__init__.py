"""The settings of a run <-> TOML.

- ``code_references``: which code a configuration names, and what of it may run.
- ``families``: ``[bias]`` and ``features``, whose keys come from dataclasses.
- ``key_rules``: rules of single keys: types of values, what sections have in common, and keys of
  [learn] that do not go with its model.
- ``learn_section``: the keys of [learn].
- ``problems``: what is wrong with a configuration, with line, key and nearest name; which paths
  it names.
- ``run_config``: the settings of a run as TOML: read, checked, filled in, written; which of them
  can change a result.
- ``section_reading``: the tables of a file checked one by one: sections, and targets by name.
- ``sections``: the keys of every section, with types, defaults and descriptions.
- ``starter_file``: the commented configuration that `unskew init` writes.
- ``toml_text``: TOML as text: the line of every key, and values written as TOML.
"""
