"""The command ``prosparse``."""
