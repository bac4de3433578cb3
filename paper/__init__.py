"""The article's figures and tables, and the settings beyond it, on CIFAR-10 and CIFAR-100."""
