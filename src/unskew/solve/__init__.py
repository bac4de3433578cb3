"""omega -> normalizers.

- ``collapse``: identical rows collapsed to counts.
- ``fixed_point``: Vardi's iteration, in plain NumPy: slow, simple, and an independent check of
  Newton's method.
- ``inspection``: one pass over ω before anything else: which entries are usable, which positive,
  how large.
- ``kernels_graph``: compiled loops over the graph of sources: Laplacian systems, balanced flows.
- ``kernels_inspect``: compiled loops that look at ω before it is solved.
- ``kernels_logistic``: the compiled loop over images behind log-linear biasing functions.
  Importing this loads Numba.
- ``kernels_sweep``: compiled loops over the rows of ω.
- ``laplacian``: Newton steps: Laplacian systems of the overlap graph, to full accuracy at weak
  links.
- ``link_error``: how much of the target hangs on normalizers that are hardly known.
- ``log_linear``: value, gradient and Hessian of −Σ_i log q_{i,s_i} for log ω_ik = offset_ik +
  θ_k·φ_i.
- ``methods``: running a method on prepared rows, and finishing: u's constant fixed, everything
  recorded.
- ``newton``: Newton's method on the biased-sampling objective: globalised, monotone, few passes.
- ``normalizers``: the doors of the stage: ``check_overlap`` and ``solve_normalizers``.
- ``objective``: the objective of the biased-sampling equations and its derivatives.
- ``omega_rows``: the rows of ω as the solver reads them: their sources, their counts, and how
  they are scaled.
- ``options``: the options of a solve: names, defaults, meaning and limits, for every function
  that solves.
- ``overlap``: whether the normalizers are identifiable, and how well.
- ``plain_graph``: loops over the graph of sources in plain NumPy: Laplacian systems, balanced
  flows.
- ``plain_inspect``: loops that look at ω before it is solved, in plain NumPy.
- ``plain_sweep``: the loop over the rows of ω in plain NumPy.
- ``prepared_rows``: what a user passed as ω and source, read, checked, collapsed, and its overlap
  judged.
- ``profile_likelihood``: score and information of the profile likelihood −Σ_i log q_{i,s_i}(u,
  θ).
- ``sgd``: the article's own procedure for the normalizers, for fidelity: stochastic gradient
  descent on D.
- ``source_codes``: names of sources ↔ columns of ω: every row gets the code of its source's
  column, or an error.
- ``starting_point``: where to start: flows balanced in logarithms, on a stratified subsample.
"""
