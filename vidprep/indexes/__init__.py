"""The Parquet index: build it, open it, probe one file."""
