"""Where bytes lie: locations on a folder or an object store, and the lock under a root."""
