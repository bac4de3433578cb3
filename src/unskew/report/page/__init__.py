"""A `Summary` → one HTML file.

- ``html`` : the page from its templates; ``panels`` : tables and galleries of its panels
- ``figures`` : a drawing with its legend and table; ``svg`` : elements, scales, axes;
  ``tables`` : cells and columns; ``numbers`` : numbers and names as a person reads them
- ``plots_sources``, ``plots_weights``, ``plots_columns``, ``plots_balance``,
  ``plots_sensitivity``, ``plots_forecast`` : the figures of one panel each
- ``plots_heat``, ``plots_graph`` and ``overlap_tables`` : links between the sources
"""
